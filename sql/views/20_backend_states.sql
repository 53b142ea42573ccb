-- about: One row per backend of an execution: refusal, lost or survivor (it returned and nothing is held against it),
--        with its count, its failures, what it sent, and the distributions that are shown.
--        lateness is what of the send delay a wait for a free connection does not explain: the engine's own.
--        held: unanswered requests held every connection. Requests waited for one longer than the run's limit of
--        lateness, or were in flight at the end beside a full queue, and the engine itself was on time. The longest
--        wait tells of a stall that is too short for a p99, unless a longer send delay says that the engine slept.
--        Without a limit, or where either was not measured, held is false.
--        An absent counter is 0 where the producer counts it; where counters cannot be read it is NULL.
WITH counted AS (
    SELECT
        run,
        exec_no,
        backend_no,
        bool_or(counter = 'benchmark.http_2xx') AS has_2xx,
        sum(value) FILTER (counter = 'benchmark.http_2xx') AS http_2xx,
        coalesce(sum(value) FILTER (
            counter[:14] = 'benchmark.http' OR counter IN (
                'benchmark.stream_resets', 'benchmark.pool_connection_failure', 'benchmark.pool_failure_timeout'
            )
        ), 0) AS sent,
        coalesce(sum(value) FILTER (counter = 'benchmark.pool_overflow'), 0) AS overflow,
        coalesce(sum(value) FILTER (counter = 'benchmark.http_inflight_lost'), 0) AS in_flight
    FROM counters
    GROUP BY run, exec_no, backend_no
),
latency AS (
    SELECT run, exec_no, backend_no, p50, p99, max
    FROM statistics
    WHERE statistic = 'benchmark_http_client.latency_2xx' AND unit = 'ns'
),
delay AS (
    SELECT run, exec_no, backend_no, p99, max
    FROM statistics
    WHERE statistic = 'harness.send_delay' AND unit = 'ns'
),
waiting AS (
    SELECT run, exec_no, backend_no, p99, max
    FROM statistics
    WHERE statistic = 'benchmark_http_client.queue_to_connect' AND unit = 'ns'
),
told AS (
    SELECT
        backends.*,
        in_error AND (error_refused IS NOT DISTINCT FROM 'execution_cap' OR refused_by_words) AS refusal
    FROM backends
    JOIN execution_states USING (run, exec_no)
)
SELECT
    told.*,
    in_error AND NOT refusal AS lost,
    returned AND NOT in_error AS survivor,
    CASE WHEN has_2xx THEN http_2xx WHEN returned AND bad_counters IS NULL THEN 0 END::BIGINT AS http_2xx,
    CASE WHEN sent IS NOT NULL THEN sent WHEN returned AND bad_counters IS NULL THEN 0 END::BIGINT AS sent,
    latency.p50 AS p50_ns,
    latency.p99 AS p99_ns,
    latency.max AS max_ns,
    delay.p99 AS send_delay_p99_ns,
    greatest(delay.p99 - coalesce(waiting.p99, 0), 0) AS lateness_p99_ns,
    coalesce(
        greatest(delay.p99 - waiting.p99, 0) <= max_send_delay_ms * 1e6
        AND (
            waiting.p99 > max_send_delay_ms * 1e6
            OR delay.max - waiting.max <= max_send_delay_ms * 1e6
            AND (waiting.max > max_send_delay_ms * 1e6 OR overflow > 0 AND in_flight > 0)
        ),
        false
    ) AS held
FROM told
JOIN runs USING (run)
LEFT JOIN counted USING (run, exec_no, backend_no)
LEFT JOIN latency USING (run, exec_no, backend_no)
LEFT JOIN delay USING (run, exec_no, backend_no)
LEFT JOIN waiting USING (run, exec_no, backend_no)
