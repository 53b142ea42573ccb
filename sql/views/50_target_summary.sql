-- about: One row per planned target: what is printed beside its verdict. Latency is the worst backend's, never a mean.
--        own_engine: a result has the counts that only an engine of this harness makes.
WITH seen AS (
    SELECT
        run,
        target_no,
        count(*) FILTER (returned) AS returned,
        count(*) FILTER (returned AND lost) AS returned_lost,
        sum(http_2xx) AS http_2xx,
        CASE WHEN count(*) FILTER (returned) = count(sent) THEN sum(sent) END::BIGINT AS sent,
        sum(CASE WHEN elapsed_ms > 0 THEN http_2xx::DOUBLE * 1000 / elapsed_ms END) AS rate_rps,
        max(p50_ns) AS p50_ns,
        max(p99_ns) AS p99_ns,
        max(max_ns) AS max_ns,
        max(send_delay_p99_ns) AS send_delay_p99_ns,
        bool_or(returned AND released_requests IS NOT NULL) AS own_engine
    FROM cells
    GROUP BY run, target_no
)
SELECT
    target_states.run,
    target_no,
    target,
    state,
    target_states.rate_rps AS share_rps,
    CASE WHEN returned > 0 THEN coalesce(total_http_2xx, http_2xx) END AS http_2xx,
    round(
        target_states.rate_rps::DOUBLE * runs.backends * coalesce(duration_ms::DOUBLE / 1000, duration_s)
    )::BIGINT AS planned,
    CASE WHEN returned > 0 THEN sent END AS sent,
    seen.rate_rps,
    coalesce(returned, 0) - coalesce(returned_lost, 0) AS survivors,
    p50_ns,
    p99_ns,
    max_ns,
    send_delay_p99_ns,
    coalesce(own_engine, false) AS own_engine,
    state = 'graded' AND total_http_2xx <> http_2xx AS totals_differ
FROM target_states
JOIN runs USING (run)
LEFT JOIN seen USING (run, target_no)
