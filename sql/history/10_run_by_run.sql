-- query: run-by-run
-- asks: What did each run come to: sent of planned, failures by class, lost backends, worst latency, window, verdict?
-- Latency is the worst node's and target's, never a mean over them. NULL is not measured. What an engine that did not
-- return had sent, and which of it failed, nobody knows: sent_by_returned and http_2xx are of the others alone.
-- drill is the fault that was put in on purpose, "no" where there was none; such a run says nothing of the mesh.
-- Every soak there is has a row, and no ladder: the question ladders is theirs. origin: tables; no tables, where none
-- could be made or could be believed, and reason says why; published, where others published totals and nothing more:
-- such rows come last. verdict is the newest; it is REFUSED where no tables could be made of the evidence, and DAMAGED
-- where a table or the verdict is not what was stored.
WITH
plan AS (
    SELECT
        run,
        CASE WHEN count(*) = count(planned) THEN sum(planned) END AS planned,
        sum(http_2xx) AS http_2xx
    FROM target_summary
    GROUP BY run
),
seen AS (
    SELECT
        run,
        count(*) AS cells,
        count(*) FILTER (returned AND bad_counters IS NULL) AS measured,
        sum(sent) FILTER (returned AND bad_counters IS NULL) AS sent,
        count(DISTINCT backend) FILTER (lost) AS lost_backends
    FROM cells
    GROUP BY run
),
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
capable AS (
    SELECT
        run,
        bool_or(counted) AS counts_any,
        CASE
            WHEN bool_and(counted) THEN ''
            WHEN count(*) FILTER (counted) < count(*) FILTER (NOT counted)
                THEN ' (counted: ' || string_agg(metric(counter), ', ' ORDER BY counter) FILTER (counted) || ' alone)'
            ELSE ' (not counted: ' || string_agg(metric(counter), ', ' ORDER BY counter) FILTER (NOT counted) || ')'
        END AS limits
    FROM capabilities
    WHERE is_failure(counter)
    GROUP BY run
),
told AS (
    SELECT
        run,
        CASE
            WHEN measured = 0 OR failures IS NULL AND counts_any IS NOT TRUE THEN 'not measured'
            ELSE coalesce(failures, 'none') || concat(
                CASE
                    WHEN measured = cells THEN ''
                    WHEN lost_backends = 1 THEN ' (1 engine lost)'
                    WHEN lost_backends > 1 THEN ' (' || lost_backends || ' engines lost)'
                    ELSE ' (' || cells - measured || ' of ' || cells || ' cells not measured)'
                END,
                limits
            )
        END AS failures
    FROM seen
    LEFT JOIN failures USING (run)
    LEFT JOIN capable USING (run)
),
drills AS (SELECT run, coalesce(nullif(value, ''), 'no') AS drill FROM settings WHERE key = 'fault'),
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
    run_folders.run,
    CASE WHEN runs.run IS NULL THEN 'no tables' ELSE 'tables' END AS origin,
    runs.profile,
    runs.fleet,
    CASE run_folders.state WHEN 'damaged' THEN 'DAMAGED' WHEN 'refused' THEN 'REFUSED' ELSE verdicts.verdict END
        AS verdict,
    drills.drill,
    CAST(seen.sent AS BIGINT) AS sent_by_returned,
    CAST(plan.planned AS BIGINT) AS planned,
    CAST(plan.http_2xx AS BIGINT) AS http_2xx,
    coalesce(told.failures, 'not measured') AS failures,
    CASE WHEN windows.run IS NOT NULL THEN seen.lost_backends END AS lost_backends,
    round(latency.worst_p50_ms, 3) AS worst_p50_ms,
    round(latency.worst_p99_ms, 3) AS worst_p99_ms,
    round(latency.worst_max_ms, 3) AS worst_max_ms,
    windows.dispatched,
    windows.ended,
    coalesce(CASE WHEN run_folders.state <> 'none' THEN run_folders.reason END, verdicts.reason, run_folders.reason)
        AS reason
FROM run_folders
LEFT JOIN runs USING (run)
LEFT JOIN verdicts USING (run)
LEFT JOIN plan USING (run)
LEFT JOIN seen USING (run)
LEFT JOIN told USING (run)
LEFT JOIN drills USING (run)
LEFT JOIN latency USING (run)
LEFT JOIN windows USING (run)
WHERE run_folders.kind <> 'e8'
UNION ALL
SELECT
    run,
    'published' AS origin,
    profile,
    NULL AS fleet,
    verdict,
    NULL AS drill,
    sent AS sent_by_returned,
    planned,
    http_2xx,
    failures,
    lost_backends,
    worst_p50_ms,
    worst_p99_ms,
    worst_max_ms,
    dispatched,
    ended,
    NULL AS reason
FROM published
ORDER BY origin = 'published', dispatched DESC NULLS LAST, run
