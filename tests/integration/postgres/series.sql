SELECT i FROM generate_series(1, 5) AS g(i)

SELECT g FROM generate_series(5, 1) g

SELECT g FROM generate_series(5, 1, -2) g

SELECT generate_series FROM generate_series(-3, 7, 3)

SELECT t.id, g FROM t, generate_series(n, id) g WHERE n BETWEEN -10 AND 10

SELECT t.id, g FROM t LEFT JOIN generate_series(id, n, 1) g ON true WHERE n < 100

SELECT g FROM generate_series('2024-01-01'::timestamp, '2024-01-05'::timestamp, interval '1 day') g

SELECT g FROM generate_series('2024-01-01'::timestamp, '2024-06-15'::timestamp, '1 month') g

SELECT g FROM generate_series('2024-03-31 22:00'::timestamp, '2024-04-01 03:30'::timestamp, interval '90 minutes') AS g

SELECT g FROM generate_series('2024-02-01'::timestamp, '2024-01-01'::timestamp, interval '1 day') AS g

SELECT t.id, g FROM t, generate_series(date_trunc('month', ts), ts, interval '1 month') g WHERE id < 4
