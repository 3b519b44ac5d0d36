SELECT DISTINCT ON (k) k, n, s FROM t ORDER BY k, n DESC, id

SELECT DISTINCT ON (k) k, n FROM t ORDER BY k, n, id

SELECT DISTINCT ON (flag, k) flag, k, id FROM t ORDER BY k DESC, flag, id DESC

SELECT DISTINCT ON (1) k AS key, d AS amount FROM t ORDER BY 1 DESC, amount NULLS FIRST, id

SELECT DISTINCT ON (lower(k)) id, s FROM t ORDER BY lower(k), id DESC LIMIT 3 OFFSET 1

SELECT DISTINCT ON (k) k, sum(n) AS total FROM t GROUP BY k, flag ORDER BY k, total DESC NULLS LAST

SELECT count(*) FROM (SELECT DISTINCT ON (n) n, id FROM t ORDER BY n, id) x

SELECT DISTINCT k FROM t

SELECT DISTINCT n % 2, flag FROM t
