-- asks: What did each node do for each target, in the order of the results, then of the engine list?
SELECT
    run,
    target_no,
    coalesce(exec_no, 0) AS exec_no,
    coalesce(backend_no, 0) AS backend_no,
    returned,
    node,
    backend,
    CASE
        WHEN state <> 'graded' THEN 'not graded'
        WHEN returned AND lost THEN 'lost'
        WHEN returned THEN 'returned'
        WHEN lost THEN 'lost, returned nothing'
        WHEN refusal THEN 'refused'
        WHEN dispatched THEN 'silent'
        ELSE 'not dispatched'
    END AS state,
    http_2xx,
    round(planned_2xx)::BIGINT AS planned,
    sent,
    sent + not_sent AS outcomes,
    released_requests AS released,
    CASE WHEN elapsed_ms > 0 THEN http_2xx::DOUBLE * 1000 / elapsed_ms END AS rate_rps,
    elapsed_ms,
    stamp(started_at) AS started_at,
    p50_ns,
    p99_ns,
    max_ns,
    send_delay_p99_ns,
    error
FROM cells
ORDER BY run, target_no, place
