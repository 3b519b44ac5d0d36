SELECT t.id, u.y FROM t JOIN u ON t.k = u.k

SELECT * FROM (SELECT id, k FROM t) a LEFT JOIN u USING (id, k)

SELECT * FROM (SELECT k, id AS tid FROM t) a FULL JOIN (SELECT k, y FROM u) b USING (k)

SELECT k, a.k AS ak, b.k AS bk FROM (SELECT k, id AS tid FROM t) a RIGHT JOIN (SELECT k, y FROM u) b USING (k)

SELECT * FROM (SELECT id, k, n FROM t) a NATURAL JOIN u

SELECT * FROM (SELECT id, n FROM t) a NATURAL LEFT JOIN (SELECT id, y FROM u) b NATURAL JOIN (SELECT id, flag FROM t) c

SELECT t.id, u.id AS uid FROM t, u WHERE t.id = u.id AND t.k IS NOT DISTINCT FROM u.k

SELECT t.id, u.y FROM t CROSS JOIN u

SELECT a.id, b.id AS bid, c.id AS cid FROM t a JOIN (u b JOIN u c ON b.k = c.k) ON a.id = b.id

SELECT a.id, b.y FROM t a, e b FULL JOIN u c ON b.id = c.id

SELECT * FROM (SELECT id AS one FROM t WHERE id < 3) a, (SELECT id, k FROM t) b NATURAL LEFT JOIN u, (SELECT 1 AS k) c

SELECT a.id, c.y FROM t a, t b JOIN u c USING (id) WHERE a.id = 1

SELECT t.* FROM (SELECT id, k FROM t) t JOIN u USING (id)

SELECT x.a / 2 AS h, x.b FROM (SELECT * FROM (SELECT n, id FROM t) p JOIN (SELECT id, k FROM u) q USING (id)) AS x(a, b, c)

SELECT Foo.ID, foo.K AS "Key", Y AS Why FROM T AS Foo JOIN U ON FOO.id = u.ID

SELECT x.a, x.b FROM (SELECT id, k FROM t) AS x(a, b)

SELECT v.x, v.y, t.id FROM (VALUES (1, 'one'), (2, NULL), (9, 'it''s')) AS v(x, y) LEFT JOIN t ON t.id = v.x

SELECT column1, column2 FROM (VALUES (1, 2.5), (2, NULL)) v
