SELECT id, s || k AS a, 'x' || n AS b, s || '-' || d AS c, NULL || s AS e, 'x' || flag AS g FROM t

SELECT id, concat(s, n, NULL, k) AS a, concat_ws('-', s, NULL, n, k) AS b FROM t

SELECT id, lower(s) AS a, upper(s) AS b, length(s) AS c, char_length(s) AS e, character_length(s) AS g, reverse(s) AS h, md5(s) AS i FROM t

SELECT id, trim(s) AS a, ltrim(s) AS b, rtrim(s) AS c, btrim(s, 'ab') AS e, ltrim(s, 'ba') AS g, rtrim(s, 'bc') AS h, trim(leading 'i' from s) AS i, trim(both from s) AS j FROM t

SELECT id, substring(s from 2) AS a, substring(s from 2 for 3) AS b, substring(s, -1, 4) AS c, substr(s, 0, 2) AS e, substring(s, n) AS g, substring(s from n for 2) AS h FROM t WHERE id <> 9

SELECT id, position('b' in s) AS a, strpos(s, 'a') AS b, strpos(s, '') AS c, position('zz' in s) AS e FROM t

SELECT id, left(s, 2) AS a, right(s, 2) AS b, left(s, 0) AS c, lpad(s, 5) AS e, lpad(s, 8, 'xy') AS g, rpad(s, 8, '*') AS h, lpad(s, 2, 'q') AS i FROM t

SELECT id, replace(s, 'a', 'zz') AS a, replace(s, '', 'x') AS b, repeat(s, 2) AS c, repeat(s, -1) AS e, translate(s, 'abc', 'x') AS g FROM t

SELECT id, split_part(s, 'b', 1) AS a, split_part(s, 'b', 2) AS b, split_part(s, 'b', 9) AS c, split_part(s, 'b', -1) AS e, starts_with(s, 'a') AS g FROM t

SELECT id, substring('abcdef', n) AS a, substring('abcdef' from n for 3) AS b, substring(s from id - 3 for 4) AS c, concat_ws(k, 'a', 'b') AS e FROM t WHERE id <> 9
