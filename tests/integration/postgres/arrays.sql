SELECT id, n = ANY(arr) AS a, n <> ALL(arr) AS b, n > ANY(arr) AS c, n <= ALL(arr) AS e, NOT (n = ANY(arr)) AS g, 3 = SOME(arr) AS h FROM t

SELECT id, arr @> ARRAY[2] AS a, arr @> ARRAY[3, 3] AS b, arr <@ ARRAY[1, 2, 3] AS c, arr && ARRAY[3, 5] AS e, arr @> ARRAY[NULL]::int[] AS g, tags && ARRAY['x', 'z'] AS h, arr && arr AS i FROM t

SELECT id, arr || ARRAY[9] AS a, arr || 9 AS b, 0 || arr AS c, arr || arr AS e, tags || 'new'::text AS g, arr || NULL::int[] AS h FROM t

SELECT id, arr[1] AS a, arr[3] AS b, tags[2] AS c, array_length(arr, 1) AS e, cardinality(arr) AS g, array_to_string(tags, '-') AS h, array_to_string(tags, '-', '?') AS i FROM t

SELECT id, array_append(arr, n) AS a, array_prepend(n, arr) AS b, array_cat(arr, ARRAY[n]) AS c, ARRAY[n, id] AS e, ARRAY['a', s] AS g FROM t

SELECT id FROM t WHERE s = ANY(ARRAY['it''s', 'abcabc']) OR k = ANY(tags)

SELECT id FROM t WHERE NOT (3 = ANY(arr))

SELECT x.__fl_element = ANY(x.arr) AS a, element = ANY(arr) AS b FROM (SELECT n AS element, id AS __fl_element, arr FROM t) x
