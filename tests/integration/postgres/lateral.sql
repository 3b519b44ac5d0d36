SELECT t.id, x FROM t, unnest(arr) AS a(x)

SELECT t.id, x FROM t CROSS JOIN LATERAL unnest(t.tags) AS x

SELECT t.id, x FROM t LEFT JOIN LATERAL unnest(t.arr) AS a(x) ON true

SELECT t.id, x, u.y FROM t LEFT JOIN unnest(t.arr) AS a(x) ON true LEFT JOIN u ON u.id = t.id

SELECT t.id, b.y FROM t, LATERAL (SELECT y FROM u WHERE u.k = t.k ORDER BY y DESC LIMIT 1) b

SELECT t.id, b.c FROM t LEFT JOIN LATERAL (SELECT count(*) AS c FROM u WHERE u.k = t.k) b ON true

SELECT t.id, b.y FROM t LEFT JOIN LATERAL (SELECT y FROM u WHERE u.k = t.k AND u.y > t.n) b ON true

SELECT t.id, i FROM t, generate_series(1, n) AS g(i) WHERE n < 10

SELECT unnest FROM unnest(ARRAY[3, NULL, 1])

SELECT k, count(DISTINCT x) AS c FROM t, unnest(tags) x GROUP BY k

SELECT t.id, m FROM t LEFT JOIN LATERAL (SELECT max(x) AS m FROM unnest(t.arr) x) b ON true

SELECT t.id, y FROM t LEFT JOIN LATERAL (SELECT x + 1 AS y FROM unnest(t.arr) x WHERE x > 1) b ON true

SELECT t.id, (SELECT count(*) FROM unnest(t.arr) x WHERE x = 3) AS threes FROM t
