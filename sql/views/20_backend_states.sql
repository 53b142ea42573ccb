-- about: One row per backend of an execution: refusal, lost or survivor (it returned and nothing is held against it),
--        with its count, its failures, what it sent, and the distributions that are shown.
--        lateness is what of the send delay a wait for a free connection does not explain: the engine's own.
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
        ), 0) AS sent
    FROM counters
    GROUP BY run, exec_no, backend_no
),
latency AS (
    SELECT run, exec_no, backend_no, p50, p99, max
    FROM statistics
    WHERE statistic = 'benchmark_http_client.latency_2xx' AND unit = 'ns'
),
delay AS (
    SELECT run, exec_no, backend_no, p99
    FROM statistics
    WHERE statistic = 'harness.send_delay' AND unit = 'ns'
),
waiting AS (
    SELECT run, exec_no, backend_no, p99
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
    coalesce(sent, 0) AS sent,
    latency.p50 AS p50_ns,
    latency.p99 AS p99_ns,
    latency.max AS max_ns,
    delay.p99 AS send_delay_p99_ns,
    greatest(delay.p99 - coalesce(waiting.p99, 0), 0) AS lateness_p99_ns
FROM told
LEFT JOIN counted USING (run, exec_no, backend_no)
LEFT JOIN latency USING (run, exec_no, backend_no)
LEFT JOIN delay USING (run, exec_no, backend_no)
LEFT JOIN waiting USING (run, exec_no, backend_no)
