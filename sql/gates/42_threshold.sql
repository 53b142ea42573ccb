-- gate: threshold
-- asserts: Every threshold that the plan states was judged, and none that was judged failed. One of the zero-failure
--          set is not said again where a failure counter says it already.
-- cause: driver where the metric is the driver's own, or where an engine of this target was lost, off plan, late or
--        short of requests: a rate or a latency that the engine itself bent says nothing of the mesh; else mesh
-- items: target × threshold
-- needs: target_states, thresholds, plan_thresholds, counters, cells, runs
-- reason: thresholds failed: {}
-- between: semicolon
WITH failed AS (
    SELECT DISTINCT exec_no FROM counters WHERE is_failure(counter) AND value > 0
),
bent AS (
    SELECT DISTINCT target_no
    FROM cells
    JOIN runs USING (run)
    WHERE
        cells.lost
        OR survivor AND (
            abs(elapsed_ms - duration_ms) > duration_ms::DOUBLE * 5 / 100
            OR sent::DOUBLE < planned_2xx * floor_pct / 100
            OR lateness_p99_ns > max_send_delay_ms * 1e6
        )
),
judged AS (
    SELECT target_no, threshold_no, expr, thresholds.passed AS holds, actual
    FROM target_states
    JOIN thresholds USING (run, exec_no)
),
wanted AS (
    SELECT target_no, NULL AS threshold_no, plan_thresholds.expr
    FROM target_states
    CROSS JOIN plan_thresholds
    ANTI JOIN judged USING (target_no, expr)
),
listed AS (
    SELECT target_no, threshold_no, expr, holds, coalesce(actual, '?') AS actual, true AS was_judged FROM judged
    UNION ALL
    SELECT target_no, threshold_no, expr, NULL, 'not judged', false FROM wanted
)
SELECT
    target_no,
    coalesce('threshold ' || threshold_no, 'planned ' || expr) AS item,
    CASE
        WHEN state <> 'graded' THEN 'SKIP'
        WHEN NOT was_judged AND (error IS NOT NULL OR is_refused OR results = 0) THEN 'SKIP'
        WHEN holds THEN 'PASS'
        WHEN is_failure(expr) AND failed.exec_no IS NOT NULL THEN 'SKIP'
        ELSE 'FAIL'
    END AS verdict,
    CASE
        WHEN metric(expr) ^@ 'pool_overflow' OR contains(expr, 'send_delay') THEN 'driver'
        WHEN bent.target_no IS NOT NULL AND NOT expr ^@ 'counter:' THEN 'driver'
        ELSE 'mesh'
    END AS cause,
    expr || ' (actual ' || actual || ')' AS lead
FROM listed
JOIN target_states USING (target_no)
LEFT JOIN failed USING (exec_no)
LEFT JOIN bent USING (target_no)
ORDER BY target_no, threshold_no NULLS LAST
