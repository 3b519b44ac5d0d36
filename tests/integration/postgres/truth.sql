SELECT id, n IS DISTINCT FROM 3 AS a, k IS NOT DISTINCT FROM NULL AS b, flag IS TRUE AS c, flag IS NOT TRUE AS e, flag IS UNKNOWN AS g, flag IS NOT FALSE AS h FROM t

SELECT id, n ISNULL AS a, n NOTNULL AS b, NOT flag AS c, flag AND n > 0 AS e, flag OR n > 0 AS g, n BETWEEN -1 AND 3 AS h, n NOT BETWEEN -1 AND 3 AS i FROM t

SELECT id, CASE WHEN n > 0 THEN 'pos' WHEN n < 0 THEN 'neg' ELSE 'none' END AS a, CASE n WHEN 3 THEN 1 WHEN NULL THEN 2 END AS b, CASE WHEN flag THEN n ELSE 0.5 END AS c FROM t

SELECT id, n IN (3, NULL) AS a, n NOT IN (3, 4) AS b, n NOT IN (3, NULL) AS c, k IN ('a', 'b') AS e, (n > 2) = flag AS g FROM t

SELECT id FROM t WHERE flag ORDER BY id

SELECT id, f > 1 AS a, f = 'NaN' AS b, f < 'NaN' AS c FROM t

SELECT id, k < 'b' AS a, s >= k AS b, s BETWEEN 'A' AND 'b' AS c, d > n AS e, f > d AS g, day < ts AS h, ts = tz AS i FROM t

SELECT id, f = 'Infinity' AS a, f > '-Infinity' AS b, greatest(f, 3) AS c, least(k, s) AS e, greatest(day, '2021-06-01') AS g FROM t
