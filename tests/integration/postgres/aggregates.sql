SELECT k, count(*), count(n) AS cn, count(DISTINCT n) AS dn, sum(n) AS sn, sum(d) AS sd, sum(DISTINCT n) AS sdn, min(s) AS mi, max(s) AS ma, min(day) AS dy FROM t GROUP BY k

SELECT k, avg(n) AS a, avg(d) AS b, avg(b) AS c, avg(DISTINCT n) AS e, avg(f) AS g FROM t WHERE id <> 6 GROUP BY k

SELECT avg(d) AS a, avg(n) AS b, sum(n) AS c, count(*) AS e, array_agg(n) AS g, string_agg(s, ',') AS h, bool_and(flag) AS i, max(s) AS j FROM t WHERE false

SELECT k, count(*) FILTER (WHERE n > 0) AS a, sum(n) FILTER (WHERE flag) AS b, avg(d) FILTER (WHERE n > 2) AS c, array_agg(n ORDER BY id) FILTER (WHERE n < 0) AS e, string_agg(s, '|' ORDER BY id) FILTER (WHERE n > 0) AS g FROM t GROUP BY k

SELECT k, bool_and(flag) AS a, bool_or(flag) AS b, every(n > 0) AS c, bit_and(n) AS e, bit_or(n) AS g, bit_xor(n) AS h FROM t GROUP BY k

SELECT k, string_agg(s, ',' ORDER BY s) AS a, string_agg(s, '; ' ORDER BY n DESC, id) AS b, string_agg(DISTINCT s, ',' ORDER BY s) AS c, string_agg(s, '' ORDER BY id DESC) AS e FROM t GROUP BY k

SELECT k, array_agg(n ORDER BY n) AS a, array_agg(n ORDER BY n DESC, id) AS b, array_agg(s ORDER BY id DESC) AS c, array_agg(n ORDER BY n NULLS FIRST) AS e, array_agg(DISTINCT n ORDER BY n DESC) AS g, array_agg(id ORDER BY k, id) AS h FROM t GROUP BY k

SELECT flag, percentile_cont(0.5) WITHIN GROUP (ORDER BY n) AS a, percentile_cont(0.25) WITHIN GROUP (ORDER BY d DESC) AS b, percentile_disc(0.5) WITHIN GROUP (ORDER BY n) AS c, percentile_disc(0.3) WITHIN GROUP (ORDER BY n DESC) AS e FROM t GROUP BY flag

SELECT k, percentile_cont(0.9) WITHIN GROUP (ORDER BY n) FILTER (WHERE n > 0) AS a FROM t GROUP BY k

SELECT flag, mode() WITHIN GROUP (ORDER BY n) AS a, mode() WITHIN GROUP (ORDER BY k DESC) AS b FROM t GROUP BY flag

SELECT k, stddev(n) AS a, stddev_pop(d) AS b, stddev_samp(n) AS c, variance(n) AS e, var_pop(n) AS g, var_samp(d) AS h FROM t GROUP BY k

SELECT flag, corr(n, id) AS a, covar_pop(d, n) AS b, covar_samp(n, id) AS c, corr(id, 1) AS e FROM t GROUP BY flag

SELECT flag, regr_slope(n, 1) AS a, regr_intercept(n, 1) AS b, regr_r2(n, 1) AS c, regr_r2(1, id) AS e, corr(n, id) FILTER (WHERE n < 0) AS g FROM t GROUP BY flag

SELECT flag, regr_avgx(n, id) AS a, regr_avgy(n, id) AS b, regr_count(n, id) AS c, regr_intercept(n, id) AS e, regr_r2(n, id) AS g, regr_slope(n, id) AS h, regr_sxx(n, id) AS i, regr_sxy(n, id) AS j, regr_syy(n, id) AS k FROM t GROUP BY flag

SELECT k, sum(n) AS total FROM t GROUP BY k HAVING sum(n) > 0 OR count(*) = 1

SELECT upper(k) AS key, count(*) FROM t GROUP BY 1

SELECT n > 0 AS positive, count(*) FROM t GROUP BY positive

SELECT k, flag, count(*) FROM t GROUP BY GROUPING SETS ((k), (flag), (k, flag))

SELECT k, flag, count(*), grouping(flag) AS g, grouping(k, flag) AS h FROM t GROUP BY k, ROLLUP (flag)

SELECT round(avg(n), 2) AS a, round(sum(d) / count(*), 1) AS b, 100.0 * count(n) / count(*) AS c FROM t

SELECT k AS n, count(*) AS c FROM t GROUP BY k

SELECT n % 2 AS m, count(*) AS c FROM t GROUP BY m

SELECT count(*) AS a, count(n) AS b, sum(n) AS c, max(n) AS e, avg(n) AS g FROM t, e

SELECT k, array_agg(d ORDER BY d DESC NULLS LAST, id) AS a, array_agg(flag ORDER BY flag, id) AS b, array_agg(day ORDER BY day) AS c FROM t GROUP BY k
