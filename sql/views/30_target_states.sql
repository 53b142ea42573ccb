-- about: One row per planned target, in plan order: missing, duplicate, not_run or graded, and its execution if graded.
--        planned_2xx is what one backend should send: its share × the planned duration; no duration plans nothing.
WITH found AS (
    SELECT
        run,
        label,
        count(*) AS executions,
        max(exec_no) AS exec_no,
        string_agg(coalesce(stamp(started_at), '?'), ', ' ORDER BY exec_no) AS starts
    FROM executions
    GROUP BY run, label
)
SELECT
    run,
    target_no,
    target,
    label,
    plan_targets.rate_rps,
    coalesce(executions, 0) AS executions,
    starts,
    CASE
        WHEN executions IS NULL THEN 'missing'
        WHEN executions > 1 THEN 'duplicate'
        WHEN not_run THEN 'not_run'
        ELSE 'graded'
    END AS state,
    CASE WHEN executions = 1 AND NOT not_run THEN exec_no END AS exec_no,
    duration_ms,
    elapsed_ms,
    started_at,
    passed,
    error,
    is_refused,
    lost,
    results,
    dispatched,
    dispatched_distinct,
    total_http_2xx,
    contradiction,
    plan_targets.rate_rps::DOUBLE * coalesce(duration_ms, 0)::DOUBLE / 1000 AS planned_2xx
FROM plan_targets
LEFT JOIN found USING (run, label)
LEFT JOIN execution_states USING (run, label, exec_no)
