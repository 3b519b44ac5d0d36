"""Queries of PostgreSQL's own kinds that stream tables keep differentially, and changes that both engines can run."""

from __future__ import annotations

QUERIES = {
    "distinct_on": "SELECT DISTINCT ON (k) k, n, s FROM t ORDER BY k, n DESC, id",
    "casts": "SELECT id, d::int AS a, n::text AS b, s::varchar(3) AS c, ts::date AS e, (n / 2)::bigint AS g FROM t",
    "patterns": "SELECT id, s FROM t WHERE s ILIKE '%A%' OR s ~ '^ ?p'",
    "series": "SELECT t.id, g FROM t, generate_series(n, id) g WHERE n BETWEEN -10 AND 10",
    "filter": "SELECT k, count(*) FILTER (WHERE n > 0) AS a, sum(n) FILTER (WHERE flag) AS b,"
    " array_agg(n ORDER BY id) FILTER (WHERE n IS NOT NULL) AS c FROM t GROUP BY k",
    "grouping": "SELECT k, flag, sum(n) AS s FROM t GROUP BY GROUPING SETS ((k), (flag), (k, flag))",
    "lateral": "SELECT t.id, b.y FROM t LEFT JOIN LATERAL"
    " (SELECT y FROM u WHERE u.k = t.k ORDER BY y DESC, u.id LIMIT 1) b ON true",
    "lateral_count": "SELECT t.id, b.c FROM t, LATERAL (SELECT count(*) AS c FROM u WHERE u.k = t.k) b",
    "unnested": "SELECT t.id, x FROM t LEFT JOIN LATERAL unnest(t.arr) AS a(x) ON true",
    "arrays": "SELECT id, n = ANY(arr) AS a, n <> ALL(arr) AS b FROM t"
    " WHERE n = ANY(arr) OR arr @> ARRAY[2] OR arr && ARRAY[5] OR arr IS NULL",
    "all_rows": "SELECT id FROM t WHERE n > ALL (SELECT y FROM u)",
    "all_known": "SELECT id FROM t WHERE n >= ALL (SELECT y FROM u WHERE y IS NOT NULL)",
    "all_matched": "SELECT id FROM t WHERE n > ALL (SELECT y FROM u WHERE u.k = t.k)",
    "any_row": "SELECT id FROM t WHERE n > ANY (SELECT y FROM u)",
    "any_matched": "SELECT id FROM t WHERE n <= ANY (SELECT y FROM u WHERE u.k = t.k)",
    "any_equal": "SELECT id FROM t WHERE n = ANY (SELECT y FROM u) AND k <> ALL (SELECT k FROM u WHERE k > 'b')",
    "not_any": "SELECT id FROM t WHERE NOT (n >= ANY (SELECT y FROM u))",
    "not_all": "SELECT id FROM t WHERE NOT (n < ALL (SELECT y FROM u)) OR n < ALL (SELECT y FROM u WHERE u.id = t.id)",
    "quantified": "SELECT id, n > ALL (SELECT y FROM u WHERE u.k = t.k) AS a,"
    " n <= ANY (SELECT y FROM u WHERE u.id > t.id) AS b, n = ALL (SELECT y FROM u) AS c FROM t",
    "not_in": "SELECT id FROM t WHERE n NOT IN (SELECT y FROM u)",
    "not_in_matched": "SELECT id FROM t WHERE n NOT IN (SELECT y FROM u WHERE u.k = t.k) OR flag",
    "not_in_value": "SELECT id, n IN (SELECT y FROM u) AS a, n NOT IN (SELECT y FROM u WHERE u.k = t.k) AS b FROM t",
    "recursive": "WITH RECURSIVE r AS (SELECT id, y, 0 AS depth FROM u WHERE id = 1 UNION ALL"
    " SELECT u.id, u.y, r.depth + 1 FROM r JOIN u ON u.id = r.id + 1 WHERE r.depth < 10) SELECT * FROM r",
    "windows": "SELECT id, rank() OVER (PARTITION BY k ORDER BY n DESC) AS a, lag(n) OVER w AS b,"
    " sum(n) OVER w AS c FROM t WINDOW w AS (PARTITION BY k ORDER BY id)",
    "top": "SELECT id, n FROM t ORDER BY n DESC, id LIMIT 3",
    "except_all": "SELECT n FROM t EXCEPT ALL SELECT y FROM u",
}
"""By the names of the stream tables that keep them."""

_MORE = (
    "INSERT INTO t SELECT id + 20, k, n - 1, b, d + 1, f, s, flag, day, ts, tz, arr, tags FROM t"
    " WHERE id IN (1, 3, 4, 7)"
)

ROUNDS = (
    # values that were unknown come and go, on both sides at once
    ("DELETE FROM u WHERE y IS NULL", _MORE, "UPDATE t SET n = NULL, k = 'a' WHERE id = 10"),
    ("UPDATE u SET y = NULL WHERE id = 3", "INSERT INTO u VALUES (2, 'a', 2), (7, 'b', 0), (8, NULL, NULL)"),
    # comparisons with no row at all
    ("DELETE FROM u", "UPDATE t SET n = n + 1, flag = NULL WHERE id < 8"),
    ("INSERT INTO u SELECT id, k, n FROM t WHERE id < 6", "DELETE FROM t WHERE id IN (2, 9)"),
)
"""Statements for both engines, one round after the other."""
