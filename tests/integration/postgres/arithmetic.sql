SELECT id, n / 2 AS a, n / -2 AS b, b / 3 AS c, -n AS d, n % 3 AS e, mod(n, -2) AS f, n * 2 - 1 AS g FROM t WHERE id <> 9

SELECT id, d / 3 AS a, d / n AS b, n / 2.0 AS c, f / 4 AS e, 1 / 3.0 AS g FROM t WHERE n <> 0 AND NOT (f = 'NaN')

SELECT id, d * 2 AS a, d + n AS b, d - 0.5 AS c, d % 2 AS e, -d AS g FROM t

SELECT n ^ 2 AS a, -n ^ 2 AS b, 2 ^ 3 ^ 2 AS c, n # 5 AS d, n & 6 AS e, n | 8 AS f, n | 1 & 3 AS g FROM t

SELECT sum(b) / 2 AS a, sum(n::bigint) / count(*) AS b, sum(n) / count(*) AS c FROM t WHERE id < 9

SELECT id, 1e3 AS a, .5 AS b, 2.50 AS c, 1e-3 * n AS e, 12345678901 AS g, 10 / 4 AS h, 10 / 4.0 AS i FROM t WHERE id < 3
