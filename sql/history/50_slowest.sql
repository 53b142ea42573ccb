-- query: slowest
-- asks: Which target on which node of which run had the highest p99?
-- params: run= limit=20
SELECT
    cells.run,
    plan_targets.target,
    cells.node,
    round(cells.p50_ns / 1e6, 3) AS p50_ms,
    round(cells.p99_ns / 1e6, 3) AS p99_ms,
    round(cells.max_ns / 1e6, 3) AS max_ms,
    round(cells.send_delay_p99_ns / 1e6, 3) AS send_delay_p99_ms,
    cells.http_2xx
FROM cells
JOIN plan_targets USING (run, target_no)
WHERE cells.p99_ns IS NOT NULL AND $run IN ('', cells.run)
ORDER BY cells.p99_ns DESC, cells.run, target_no, cells.node
LIMIT CAST($limit AS BIGINT)
