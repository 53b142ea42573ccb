-- query: cells
-- asks: What did every node send every target, in how much time, how late, and within which thresholds?
SELECT
    plan_targets.target,
    cells.node,
    cells.backend,
    cells.returned,
    cells.returned AND cells.bad_counters IS NULL AS readable,
    cells.http_2xx,
    CAST(round(
        CASE WHEN cells.duration_ms IS NULL THEN cells.rate_rps * runs.duration_s ELSE cells.planned_2xx END
    ) AS BIGINT) AS planned,
    cells.p50_ns,
    cells.p99_ns,
    cells.max_ns,
    cells.send_delay_p99_ns,
    cells.breaks_threshold
FROM cells
JOIN plan_targets USING (run, target_no)
JOIN runs USING (run)
ORDER BY target_no, cells.node_no NULLS LAST, cells.backend_no
