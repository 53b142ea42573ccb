-- gate: threshold
-- asserts: Every threshold that the plan states was judged, and none that was judged failed. One of the zero-failure
--          set is not said again where a failure counter says it already.
-- cause: driver where the metric is the driver's own, or where an engine of this target was lost, off plan, late or
--        short of requests that the mesh did not hold up: a rate or a latency that the engine itself bent says nothing
--        of the mesh. Else mesh, and always so for a percentile of request_to_response, which starts when a request
--        is written
-- items: target × threshold
-- needs: target_states, thresholds, threshold_actuals, plan_thresholds, counters, cells, runs
-- reason: thresholds failed: {}
-- between: semicolon
WITH failed AS (
    SELECT DISTINCT exec_no FROM counters WHERE is_failure(counter) AND value > 0
),
engines AS (
    SELECT
        target_no,
        bool_or(
            cells.lost
            OR survivor AND (
                abs(elapsed_ms - duration_ms) > duration_ms::DOUBLE * 5 / 100
                OR sent::DOUBLE < planned_2xx * floor_pct / 100 AND NOT held
                OR lateness_p99_ns > max_send_delay_ms * 1e6
            )
        ) AS bent,
        bool_or(survivor AND held) AS held
    FROM cells
    JOIN runs USING (run)
    GROUP BY target_no
),
breaking AS (
    SELECT exec_no, threshold_no, string_agg(node || '=' || actual, ' ' ORDER BY backend_no) AS nodes
    FROM threshold_actuals
    WHERE NOT holds
    GROUP BY exec_no, threshold_no
),
judged AS (
    SELECT target_no, threshold_no, expr, thresholds.passed AS holds, actual, nodes
    FROM target_states
    JOIN thresholds USING (run, exec_no)
    LEFT JOIN breaking USING (exec_no, threshold_no)
),
wanted AS (
    SELECT target_no, NULL AS threshold_no, plan_thresholds.expr
    FROM target_states
    CROSS JOIN plan_thresholds
    ANTI JOIN judged USING (target_no, expr)
),
listed AS (
    SELECT target_no, threshold_no, expr, holds, coalesce(actual, '?') AS actual, nodes, true AS was_judged
    FROM judged
    UNION ALL
    SELECT target_no, threshold_no, expr, NULL, 'not judged', NULL, false FROM wanted
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
        WHEN regexp_matches(expr, '^(benchmark_http_client\.)?request_to_response\.p[0-9]{1,2}(\.[0-9]+)?\b') -- not p100
            THEN 'mesh'
        WHEN metric(expr) ^@ 'pool_overflow' THEN 'driver'
        WHEN bent AND NOT expr ^@ 'counter:' THEN 'driver'
        WHEN contains(expr, 'send_delay') AND NOT coalesce(held, false) THEN 'driver'
        ELSE 'mesh'
    END AS cause,
    expr || ' (actual ' || actual || ')' || coalesce(' on [' || nodes || ']', '') AS lead
FROM listed
JOIN target_states USING (target_no)
LEFT JOIN failed USING (exec_no)
LEFT JOIN engines USING (target_no)
ORDER BY target_no, threshold_no NULLS LAST
