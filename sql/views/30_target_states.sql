-- about: One row per planned target, in plan order: missing, duplicate, not_run or graded, and its execution if graded.
--        planned_2xx is what one backend should send: its share × the planned duration; no duration plans nothing.
--        times_it, judges_it, judges_limits: whether the report's producer measures an execution's time, says that it
--        passed, and judges thresholds. A producer that leaves one of these open says so in capabilities.
WITH can AS (
    SELECT
        run,
        bool_and(counted) FILTER (counter = 'driver.elapsed') AS times_it,
        bool_and(counted) FILTER (counter = 'driver.pass') AS judges_it,
        bool_and(counted) FILTER (counter = 'driver.thresholds') AS judges_limits
    FROM capabilities
    GROUP BY run
),
found AS (
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
    plan_targets.rate_rps::DOUBLE * coalesce(duration_ms, 0)::DOUBLE / 1000 AS planned_2xx,
    coalesce(times_it, true) AS times_it,
    coalesce(judges_it, true) AS judges_it,
    coalesce(judges_limits, true) AS judges_limits
FROM plan_targets
LEFT JOIN can USING (run)
LEFT JOIN found USING (run, label)
LEFT JOIN execution_states USING (run, label, exec_no)
