-- query: zeros
-- asks: How often did each class of failure happen in the whole run, out of how many requests that were released?
-- Only classes that do not repeat one another, and k6's own where it counted. NULL is not measured: no backend returned,
-- the producer does not count the class, or counters of an answering backend cannot be read. Where an engine does not
-- say how many requests it released, those that it has an outcome for stand in for them.
WITH
classes AS (
    SELECT unnest([
        'http_4xx', 'http_5xx', 'stream_resets', 'pool_connection_failure', 'pool_failure_timeout', 'pool_overflow',
        'http_inflight_lost'
    ]) AS class
    UNION ALL
    SELECT metric(counter) FROM capabilities WHERE counted AND is_failure(counter) AND counter LIKE 'k6.%'
),
seen AS (SELECT metric(counter) AS class, sum(value) AS value FROM counters GROUP BY class),
counted AS (SELECT metric(counter) AS class, bool_and(counted) AS counted FROM capabilities GROUP BY class),
released AS (
    SELECT
        count(*) > 0 AND count(*) = count(*) FILTER (bad_counters IS NULL) AS readable,
        CASE WHEN count(*) = count(coalesce(released_requests, sent + coalesce(not_sent, 0)))
            THEN sum(coalesce(released_requests, sent + coalesce(not_sent, 0))) END AS requests
    FROM backend_states
    WHERE returned
)
SELECT
    class,
    CAST(CASE WHEN seen.value > 0 THEN seen.value WHEN counted.counted AND released.readable THEN 0 END AS BIGINT)
        AS failures,
    CAST(released.requests AS BIGINT) AS requests
FROM classes
CROSS JOIN released
LEFT JOIN seen USING (class)
LEFT JOIN counted USING (class)
ORDER BY class
