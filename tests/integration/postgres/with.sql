WITH a AS (SELECT k, sum(n) AS s FROM t GROUP BY k), b AS MATERIALIZED (SELECT * FROM a WHERE s > 0) SELECT a.k, b.s FROM a LEFT JOIN b ON a.k = b.k

WITH a(x, y) AS (SELECT id, k FROM t) SELECT x, y FROM a WHERE x IN (SELECT id FROM u)

WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 6) SELECT i, i / 2 AS h FROM r

WITH RECURSIVE r AS (SELECT id, 0 AS depth FROM u WHERE id = 1 UNION ALL SELECT u.id, r.depth + 1 FROM r JOIN u ON u.id = r.id + 1 WHERE r.depth < 10) SELECT * FROM r

WITH t AS (SELECT 7.0 AS n) SELECT n / 2 AS h FROM t

SELECT * FROM (WITH a AS (SELECT 1 AS one) SELECT one, one / 2 AS half FROM a) x

VALUES (1, 'a'), (2, NULL)
