-- query: zeros
-- asks: How often did each class of failure happen in the whole run, out of how many requests that were released?
-- Only classes that do not repeat one another. NULL is not measured: no backend returned, the producer does not count
-- the class, or an answering backend does not say how many requests it released.
WITH
classes AS (
    SELECT unnest([
        'http_4xx', 'http_5xx', 'stream_resets', 'pool_connection_failure', 'pool_failure_timeout', 'pool_overflow',
        'http_inflight_lost'
    ]) AS class
),
seen AS (SELECT metric(counter) AS class, sum(value) AS value FROM counters GROUP BY class),
counted AS (SELECT metric(counter) AS class, bool_and(counted) AS counted FROM capabilities GROUP BY class),
released AS (
    SELECT
        count(*) AS results,
        CASE WHEN count(*) = count(released_requests) THEN sum(released_requests) END AS requests
    FROM backends
    WHERE returned
)
SELECT
    class,
    CAST(coalesce(seen.value, CASE WHEN counted.counted AND released.results > 0 THEN 0 END) AS BIGINT) AS failures,
    CAST(released.requests AS BIGINT) AS requests
FROM classes
CROSS JOIN released
LEFT JOIN seen USING (class)
LEFT JOIN counted USING (class)
ORDER BY class
