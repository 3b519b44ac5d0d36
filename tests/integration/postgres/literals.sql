SELECT 'it''s' AS a, E'tab\there' AS b, $$dollar's$$ AS c, 'back\slash' AS d, '' AS e, 'ünï' AS f, 'a"b`c' AS g

SELECT TRUE AS a, false AS b, NULL AS c, 1 AS d, -1 AS e, 'line
break' AS f

SELECT id FROM t WHERE s = 'it''s' OR s = 'back\slash' OR s = 'ünï
line'
