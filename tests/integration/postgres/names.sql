SELECT count(*), sum(n), max(id) FROM t

SELECT id, lower(s), s::int IS NULL AS x, coalesce(k, 'none') FROM t WHERE s IS NULL

SELECT ID, K AS "My Key", N AS "select" FROM t

SELECT CASE WHEN flag THEN 1 END, n::text, extract(year from day), row_number() OVER (ORDER BY id), true FROM t

SELECT (SELECT max(y) FROM u), ARRAY[1, 2], n - 1 AS less, trim(s), substring(s, 1, 1), position('a' in s), current_date IS NULL AS c, EXISTS (SELECT 1 FROM e) FROM t

SELECT x.count, x.lower FROM (SELECT count(*), lower('A') FROM t) x
