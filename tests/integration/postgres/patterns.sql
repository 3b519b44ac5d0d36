SELECT id FROM t WHERE s LIKE 'a%' OR s LIKE '%\%%' OR s LIKE '_pad_'

SELECT id, s ILIKE 'A%' AS a, s NOT ILIKE '%E' AS b, s LIKE 'a!%b!_c' ESCAPE '!' AS c, s ~~ '%pie' AS e, s !~~ '%pie' AS g FROM t

SELECT id, s ~ '^a' AS a, s ~* '^A.*E$' AS b, s !~ 'b' AS c, s !~* 'B' AS e, s ~ 'line$' AS g, s ~ 'ï.line' AS h FROM t

SELECT id, s ~ '^(abc){2}$' AS a, s ~ '[a-c%]+' AS b, s ~ '\d|\s' AS c, s ~ '^\w+$' AS e, s ~ '\\' AS g, s ~ '[^a-z ]' AS h, k ~ '^.$' AS i FROM t

SELECT id, s SIMILAR TO '(abc)+' AS a, s SIMILAR TO 'a%' AS b, s NOT SIMILAR TO '%(pie|pad)%' AS c, s SIMILAR TO '_bc___' AS e, s SIMILAR TO 'a.%' AS g, s SIMILAR TO '[a-z]+' AS h FROM t
