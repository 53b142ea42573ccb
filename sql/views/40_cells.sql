-- about: The grid: every planned target × every node of the engine list, joined with what was seen there. A backend on
--        an address that the list does not hold, or a second one on the same address, is a further row, planned false.
--        cell names a row within its target, place its order there. breaks_threshold: this backend is one of those whose
--        value breaks a threshold; NULL where no threshold tells the backends apart.
WITH broken AS (
    SELECT run, exec_no, backend_no, bool_or(NOT holds) AS breaks_threshold
    FROM threshold_actuals
    GROUP BY run, exec_no, backend_no
),
seen AS (
    SELECT
        target_states.target_no,
        backend_states.*,
        breaks_threshold,
        row_number() OVER (PARTITION BY run, target_no, ip ORDER BY backend_no) AS nth
    FROM target_states
    JOIN backend_states USING (run, exec_no)
    LEFT JOIN broken USING (run, exec_no, backend_no)
),
planned AS (
    SELECT run, target_no, node_no, plan_nodes.node, ip, 1 AS nth
    FROM plan_targets
    JOIN plan_nodes USING (run)
)
SELECT
    run,
    target_no,
    target_states.state,
    target_states.is_refused,
    target_states.error AS execution_error,
    target_states.duration_ms,
    target_states.rate_rps,
    target_states.planned_2xx,
    node_no IS NOT NULL AS planned,
    node_no,
    coalesce(planned.node, seen.node) AS node,
    coalesce(planned.ip, seen.ip) AS ip,
    CASE WHEN node_no IS NULL THEN 'backend ' || backend_no ELSE 'node ' || node_no END AS cell,
    row_number() OVER (PARTITION BY run, target_no ORDER BY backend_no NULLS LAST, node_no) AS place,
    seen.exec_no,
    backend_no,
    coalesce(backend, ip) AS backend,
    coalesce(seen.dispatched, false) AS dispatched,
    coalesce(returned, false) AS returned,
    coalesce(refusal, false) AS refusal,
    coalesce(seen.lost, false) AS lost,
    coalesce(survivor, false) AS survivor,
    seen.error,
    seen.elapsed_ms,
    seen.started_at,
    bad_counters,
    http_2xx,
    sent,
    answers,
    not_sent,
    not_sent_class,
    in_flight,
    planned_requests,
    released_requests,
    p50_ns,
    p99_ns,
    max_ns,
    send_delay_p99_ns,
    lateness_p99_ns,
    coalesce(held, false) AS held,
    breaks_threshold,
    floor_pct,
    max_send_delay_ms
FROM planned
FULL JOIN seen USING (run, target_no, ip, nth)
JOIN target_states USING (run, target_no)
JOIN runs USING (run)
