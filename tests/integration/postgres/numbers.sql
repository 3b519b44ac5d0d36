SELECT id, round(d) AS a, round(d, 1) AS b, round(f) AS c, round(n) AS e, round(n / 3.0, 2) AS g FROM t

SELECT id, ceil(d) AS a, floor(d) AS b, ceil(f) AS c, floor(f) AS e, ceiling(n) AS g FROM t

SELECT id, abs(n) AS a, abs(d) AS b, sign(n) AS c, sqrt(abs(d)) AS e, power(n, 2) AS g, pow(d, 2) AS h, cbrt(27) AS i FROM t

SELECT id, ln(abs(n) + 1) AS a, log(abs(n) + 1) AS b, log10(abs(n) + 1) AS c, exp(0.5) AS e, pi() AS g, degrees(1.5) AS h, radians(90) AS i FROM t WHERE id <> 9

SELECT id, greatest(n, 2, y) AS a, least(n, y) AS b, coalesce(n, y, 0) AS c, nullif(n, 3) AS e FROM t LEFT JOIN u USING (id)

SELECT id, sqrt(d) AS a, ln(f) AS b, power(n, 2.5) AS c, power(n, -1) AS e, d ^ 0.5 AS g FROM t WHERE n > 0 AND id NOT IN (6, 10)
