SELECT id, day + 1 AS a, day - 1 AS b, 2 + day AS c, day - '2024-01-01'::date AS e, day - day AS g, make_date(2024, 2, 29) AS h FROM t

SELECT id, ts + interval '1 month' AS a, ts - interval '1 year 2 months' AS b, ts + interval '1 mon 2 days 03:04:05.5' AS c, ts - interval '1 day 1 hour' AS e, ts + interval '3' day AS g FROM t

SELECT id, day + interval '1 month' AS a, day - interval '36 hours' AS b, day + interval '1 day' AS c, interval '2 weeks' + ts AS e, ts + interval '-1 day' AS g, ts + interval '1 day ago' AS h FROM t

SELECT id, tz + interval '1 month' AS a, tz - interval '1 day' AS b, tz + interval '90 minutes' AS c FROM t

SELECT id, ts + n * interval '1 day' AS a, ts - interval '1 hour' * n AS b, ts + '2 days'::interval AS c FROM t WHERE id < 9

SELECT a.id AS x, b.id AS y FROM t a JOIN t b ON a.ts - b.ts > interval '300 days' AND a.ts - b.ts < interval '400 days'

SELECT id, date_trunc('second', ts) AS a, date_trunc('minute', ts) AS b, date_trunc('hour', ts) AS c, date_trunc('day', ts) AS e, date_trunc('week', ts) AS g FROM t

SELECT id, date_trunc('month', ts) AS a, date_trunc('quarter', ts) AS b, date_trunc('year', ts) AS c, date_trunc('month', day) AS e, date_trunc('hour', tz) AS g, date_trunc('week', tz) AS h FROM t

SELECT id, extract(year from ts) AS a, extract(quarter from ts) AS b, extract(month from day) AS c, extract(week from day) AS e, extract(day from tz) AS g, extract(doy from day) AS h FROM t

SELECT id, extract(dow from day) AS a, extract(isodow from ts) AS b, extract(isoyear from day) AS c, extract(hour from ts) AS e, extract(minute from tz) AS g, extract(second from ts) AS h FROM t

SELECT id, extract(epoch from ts) AS a, extract(epoch from day) AS b, extract(epoch from tz) AS c, date_part('dow', day) AS e, date_part('epoch', ts) AS g, extract(year from day) / 2 AS h FROM t

SELECT a.id AS x, b.id AS y, extract(epoch from a.ts - b.ts) AS s FROM t a, t b

SELECT id FROM t WHERE day >= DATE '2021-01-01' AND ts < TIMESTAMP '2024-12-30 12:00:00'

SELECT id, tz + interval '1 day' AS a, tz - interval '5 hours' AS b, date_trunc('day', tz) AS c, extract(hour from tz) AS e, tz::date AS g, ts::timestamptz AS h, extract(epoch from ts) AS i FROM t

SELECT x, date_trunc('hour', x) AS a, x + interval '1 day' AS b, extract(hour from x) AS c FROM (VALUES ('2024-03-10 02:30'::timestamp), ('2024-11-03 01:30'::timestamp), ('2024-03-09 02:30'::timestamp)) v(x)

SELECT x, x + interval '1 day' AS a, x + interval '12 hours' AS b, date_trunc('day', x) AS c, x - interval '1 month' AS e FROM (VALUES ('2024-03-10 07:30:00+00:00'::timestamptz), ('2024-11-03 05:30:00+00:00'::timestamptz), ('2024-03-09 07:30:00+00:00'::timestamptz)) v(x)

SELECT DISTINCT date_trunc('month', day)::date AS m, extract(year from day)::int AS y FROM t

SELECT id FROM t WHERE day > '2021-01-01'::date - 7 AND ts >= day AND day BETWEEN '2000-01-01' AND '2024-02-28'
