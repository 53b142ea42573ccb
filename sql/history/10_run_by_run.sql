-- query: run-by-run
-- asks: What did each run come to: sent of planned, failures by class, lost backends, worst latency, window, verdict?
-- Latency is the worst node's and target's, never a mean over them. NULL is not measured.
WITH
plan AS (SELECT run, sum(planned) AS planned, sum(http_2xx) AS http_2xx FROM target_summary GROUP BY run),
sent AS (SELECT run, sum(sent) AS sent FROM cells WHERE returned GROUP BY run),
lost AS (SELECT run, count(DISTINCT backend) AS lost_backends FROM cells WHERE lost GROUP BY run),
classes AS (
    SELECT run, metric(counter) AS class, sum(value) AS requests
    FROM counters
    WHERE is_failure(counter)
    GROUP BY run, class
    HAVING sum(value) > 0
),
failures AS (
    SELECT run, string_agg(class || ' ' || requests, ', ' ORDER BY class) AS failures FROM classes GROUP BY run
),
latency AS (
    SELECT
        run,
        max(p50_ns) / 1e6 AS worst_p50_ms,
        max(p99_ns) / 1e6 AS worst_p99_ms,
        max(max_ns) / 1e6 AS worst_max_ms
    FROM cells
    GROUP BY run
),
windows AS (SELECT run, min(started_at) AS dispatched, max(ended_at) AS ended FROM executions GROUP BY run)
SELECT
    runs.run,
    runs.profile,
    runs.fleet,
    verdicts.verdict,
    CAST(sent.sent AS BIGINT) AS sent,
    CAST(plan.planned AS BIGINT) AS planned,
    CAST(plan.http_2xx AS BIGINT) AS http_2xx,
    coalesce(failures.failures, 'none') AS failures,
    coalesce(lost.lost_backends, 0) AS lost_backends,
    round(latency.worst_p50_ms, 3) AS worst_p50_ms,
    round(latency.worst_p99_ms, 3) AS worst_p99_ms,
    round(latency.worst_max_ms, 3) AS worst_max_ms,
    windows.dispatched,
    windows.ended
FROM runs
LEFT JOIN verdicts USING (run)
LEFT JOIN plan USING (run)
LEFT JOIN sent USING (run)
LEFT JOIN lost USING (run)
LEFT JOIN failures USING (run)
LEFT JOIN latency USING (run)
LEFT JOIN windows USING (run)
ORDER BY coalesce(windows.dispatched, runs.created_at) DESC NULLS LAST, runs.run
