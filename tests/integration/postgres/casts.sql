SELECT id, d::int AS a, f::int AS b, (n / 2.0)::int AS c, '12'::int AS e, n::bigint AS g, n::smallint AS h FROM t WHERE id NOT IN (6, 9, 10)

SELECT id, n::text AS a, d::text AS b, flag::text AS c, day::text AS e, ts::text AS g, flag::int AS h, n::boolean AS i FROM t

SELECT id, n::numeric / 2 AS a, n::numeric(11, 1) AS b, f::numeric(10, 1) AS c, '1.50'::numeric AS e FROM t WHERE id NOT IN (6, 10)

SELECT id, s::varchar(3) AS a, CAST(s AS varchar) AS b, 't'::boolean AS c, n::double precision AS e, d::real::double precision AS g FROM t

SELECT id, day::timestamp AS a, ts::date AS b, tz::date AS c, '2024-02-29'::date AS e, '2024-02-29 10:00'::timestamp AS g, ts::timestamptz AS h, tz::timestamp AS i FROM t

SELECT ARRAY[]::int[] AS a, ARRAY[1, 2]::bigint[] AS b, NULL::text AS c, NULL::int[] AS e

SELECT id FROM t WHERE n = '3' OR d = '2.50' OR day = '2024-02-29' OR flag = 'true' OR ts > '2024-02-28'

SELECT id, round(f)::int AS a, (d * 10)::bigint AS b, (n::numeric(12, 2) * d)::numeric(12, 1) AS c, trim(s)::varchar(2) || 'x' AS e FROM t WHERE id NOT IN (6, 9, 10)

SELECT 2.5::int AS a, (-2.5)::int AS b, 3.5::int AS c, 2.5::float8::int AS d, (-2.5)::float8::int AS e, 3.5::float8::int AS f, 0.5::int AS g, 1.005::numeric(3, 2) AS h

SELECT '2024-03-10 07:30+01'::timestamptz AS a, '2024-03-10T07:30Z'::timestamptz AS b, '2024-03-10 07:30:15.5-03:30'::timestamptz AS c, '2024-03-10 07:30+01'::timestamp AS e
