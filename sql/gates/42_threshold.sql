-- gate: threshold
-- asserts: Every threshold that the plan states was judged, and none that was judged failed. One of the zero-failure
--          set is not said again where a failure counter says it already.
-- cause: driver where the metric is the driver's own, or where an engine of this target was lost, off plan, late or
--        short of requests that the mesh did not hold up: a rate or a latency that the engine itself bent says nothing
--        of the mesh. Else mesh, and always so for a percentile of request_to_response, which starts when a request
--        is written
-- items: target × threshold
-- needs: target_states, thresholds, threshold_actuals, plan_thresholds, counters, cells
-- reason: thresholds failed: {}
-- between: semicolon
WITH failed AS (
    SELECT DISTINCT run, exec_no, true AS told FROM counters WHERE is_failure(counter) AND value > 0
),
engines AS (
    SELECT
        run,
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
    GROUP BY run, target_no
),
breaking AS (
    SELECT run, exec_no, threshold_no, string_agg(node || '=' || actual, ' ' ORDER BY backend_no) AS nodes
    FROM threshold_actuals
    WHERE NOT holds
    GROUP BY run, exec_no, threshold_no
),
judged AS (
    SELECT run, target_no, threshold_no, expr, thresholds.passed AS holds, actual, nodes
    FROM target_states
    JOIN thresholds USING (run, exec_no)
    LEFT JOIN breaking USING (run, exec_no, threshold_no)
),
wanted AS (
    SELECT run, target_no, NULL AS threshold_no, plan_thresholds.expr
    FROM target_states
    JOIN plan_thresholds USING (run)
    ANTI JOIN judged USING (run, target_no, expr)
),
listed AS (
    SELECT run, target_no, threshold_no, expr, holds, coalesce(actual, '?') AS actual, nodes, true AS was_judged
    FROM judged
    UNION ALL
    SELECT run, target_no, threshold_no, expr, NULL, 'not judged', NULL, false FROM wanted
)
SELECT
    run,
    target_no,
    threshold_no AS place,
    coalesce('threshold ' || threshold_no, 'planned ' || expr) AS item,
    CASE
        WHEN state <> 'graded' THEN 'SKIP'
        WHEN NOT was_judged AND (error IS NOT NULL OR is_refused OR results = 0) THEN 'SKIP'
        WHEN holds THEN 'PASS'
        WHEN is_failure(expr) AND failed.told THEN 'SKIP'
        WHEN NOT was_judged AND NOT judges_limits THEN 'UNMEASURED'
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
JOIN target_states USING (run, target_no)
LEFT JOIN failed USING (run, exec_no)
LEFT JOIN engines USING (run, target_no)
