-- about: One row per backend of an execution: refusal, lost or survivor (it returned and nothing is held against it),
--        with its counts, what it sent, and the distributions that are shown.
--        An absent counter is 0 where the producer counts it; where it does not, or where counters cannot be read, it
--        is NULL. sent: requests that left the engine; not_sent: those that its own queue turned away; answers: those with
--        a status that no failure counter holds (1xx, 2xx, 3xx, other).
--        lateness is what of the send delay a wait for a free connection does not explain: the engine's own.
--        held: unanswered requests held every connection. Requests waited for one longer than the run's limit of
--        lateness, or were in flight at the end beside a full queue, and the engine itself was on time. The longest
--        wait tells of a stall that is too short for a p99, unless a longer send delay says that the engine slept.
--        Without a limit, or where either was not measured, held is false.
WITH counted AS (
    SELECT
        run,
        exec_no,
        backend_no,
        bool_or(counter = 'benchmark.http_2xx') AS has_2xx,
        sum(value) FILTER (counter = 'benchmark.http_2xx') AS http_2xx,
        coalesce(sum(value) FILTER (
            counter[:14] = 'benchmark.http' OR counter IN (
                'benchmark.stream_resets', 'benchmark.pool_connection_failure', 'benchmark.pool_failure_timeout',
                'k6.http_reqs'
            )
        ), 0) AS sent,
        sum(value) FILTER (counter IN (
            'benchmark.http_1xx', 'benchmark.http_2xx', 'benchmark.http_3xx', 'benchmark.http_xxx'
        )) AS answers,
        bool_or(is_not_sent(counter)) AS has_not_sent,
        sum(value) FILTER (is_not_sent(counter)) AS not_sent,
        min(metric(counter)) FILTER (is_not_sent(counter)) AS not_sent_class,
        bool_or(counter = 'benchmark.http_inflight_lost') AS has_in_flight,
        sum(value) FILTER (counter = 'benchmark.http_inflight_lost') AS in_flight
    FROM counters
    GROUP BY run, exec_no, backend_no
),
can AS (
    SELECT
        run,
        bool_or(counted) FILTER (counter = 'benchmark.http_2xx') AS counts_2xx,
        bool_or(counted) FILTER (is_not_sent(counter)) AS counts_not_sent,
        min(metric(counter)) FILTER (is_not_sent(counter)) AS names_not_sent,
        bool_or(counted) FILTER (counter = 'benchmark.http_inflight_lost') AS counts_in_flight
    FROM capabilities
    GROUP BY run
),
distributions AS (
    SELECT
        run,
        exec_no,
        backend_no,
        max(p50) FILTER (is_latency(statistic)) AS p50_ns,
        max(p99) FILTER (is_latency(statistic)) AS p99_ns,
        max(max) FILTER (is_latency(statistic)) AS max_ns,
        max(p99) FILTER (statistic = 'harness.send_delay') AS delay_p99,
        max(max) FILTER (statistic = 'harness.send_delay') AS delay_max,
        max(p99) FILTER (statistic = 'benchmark_http_client.queue_to_connect') AS waiting_p99,
        max(max) FILTER (statistic = 'benchmark_http_client.queue_to_connect') AS waiting_max
    FROM statistics
    WHERE unit = 'ns'
    GROUP BY run, exec_no, backend_no
),
told AS (
    SELECT
        backends.*,
        in_error AND (error_refused IS NOT DISTINCT FROM 'execution_cap' OR refused_by_words) AS refusal,
        returned AND bad_counters IS NULL AS readable
    FROM backends
    JOIN execution_states USING (run, exec_no)
)
SELECT
    told.* EXCLUDE (readable),
    in_error AND NOT refusal AS lost,
    returned AND NOT in_error AS survivor,
    CASE WHEN has_2xx THEN http_2xx WHEN readable AND counts_2xx THEN 0 END::BIGINT AS http_2xx,
    CASE WHEN sent IS NOT NULL THEN sent WHEN readable THEN 0 END::BIGINT AS sent,
    greatest(answers, CASE WHEN has_2xx THEN http_2xx WHEN readable AND counts_2xx THEN 0 END)::BIGINT AS answers,
    CASE WHEN has_not_sent THEN not_sent WHEN readable AND counts_not_sent THEN 0 END::BIGINT AS not_sent,
    coalesce(not_sent_class, names_not_sent, 'pool_overflow') AS not_sent_class,
    CASE WHEN has_in_flight THEN in_flight WHEN readable AND counts_in_flight THEN 0 END::BIGINT AS in_flight,
    p50_ns,
    p99_ns,
    max_ns,
    delay_p99 AS send_delay_p99_ns,
    greatest(delay_p99 - coalesce(waiting_p99, 0), 0) AS lateness_p99_ns,
    coalesce(
        greatest(delay_p99 - waiting_p99, 0) <= max_send_delay_ms * 1e6
        AND (
            waiting_p99 > max_send_delay_ms * 1e6
            OR delay_max - waiting_max <= max_send_delay_ms * 1e6
            AND (waiting_max > max_send_delay_ms * 1e6 OR not_sent > 0 AND in_flight > 0)
        ),
        false
    ) AS held
FROM told
JOIN runs USING (run)
LEFT JOIN can USING (run)
LEFT JOIN counted USING (run, exec_no, backend_no)
LEFT JOIN distributions USING (run, exec_no, backend_no)
