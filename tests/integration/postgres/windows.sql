SELECT id, row_number() OVER (ORDER BY n, id) AS a, row_number() OVER (ORDER BY n DESC, id) AS b, rank() OVER (PARTITION BY flag ORDER BY k) AS c, dense_rank() OVER (ORDER BY k DESC) AS e FROM t

SELECT id, sum(n) OVER (PARTITION BY k ORDER BY id) AS a, avg(n) OVER (PARTITION BY k) AS b, count(*) OVER () AS c, min(n) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS e FROM t

SELECT id, lag(n) OVER w AS a, lead(n, 2, 0) OVER w AS b, first_value(s) OVER w AS c, last_value(n) OVER w AS e, nth_value(n, 2) OVER w AS g, ntile(3) OVER w AS h FROM t WINDOW w AS (ORDER BY k NULLS FIRST, id)

SELECT id, percent_rank() OVER (ORDER BY k) AS a, cume_dist() OVER (ORDER BY n DESC) AS b, sum(n) OVER (ORDER BY k RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS c FROM t

SELECT k, sum(n) AS s, rank() OVER (ORDER BY sum(n) DESC) AS r FROM t GROUP BY k

SELECT id, bool_or(flag) OVER (PARTITION BY k) AS a, stddev(n) OVER (PARTITION BY k) AS b, max(s) OVER (PARTITION BY k ORDER BY id DESC) AS c FROM t
