-- gate: failures
-- asserts: No failure counter moved on any backend, lost ones included; requests that were never sent, and those in
--          flight at the end, have gates of their own.
-- cause: mesh; the request was sent and it failed
-- items: cell × class
-- needs: cells, counters, capabilities
-- reason: failures {}
-- between: space
WITH classes AS (
    SELECT run, counter, metric(counter) AS class, bool_and(counted) AS counted
    FROM (SELECT run, counter, true AS counted FROM counters UNION ALL SELECT run, counter, counted FROM capabilities)
    WHERE is_failure(counter) AND NOT is_not_sent(counter) AND counter <> 'benchmark.http_inflight_lost'
    GROUP BY run, counter
),
moved AS (
    SELECT run, exec_no, counter, sum(value) AS total FROM counters WHERE value > 0 GROUP BY run, exec_no, counter
)
SELECT
    run,
    target_no,
    place,
    cells.node,
    cell || ' ' || class AS item,
    class,
    CASE
        WHEN state <> 'graded' OR NOT returned THEN 'SKIP'
        WHEN counters.value > 0 THEN 'FAIL'
        WHEN counters.value = 0 THEN 'PASS'
        WHEN counters.counter IS NOT NULL OR bad_counters IS NOT NULL THEN 'SKIP' -- no count: bad_counters says so
        WHEN counted THEN 'PASS'
        ELSE 'UNMEASURED'
    END AS verdict,
    counters.value AS count,
    'mesh' AS cause,
    class || '=' || total || ' [' AS lead,
    cells.node || '=' || counters.value AS part,
    ']' AS tail
FROM cells
JOIN classes USING (run)
LEFT JOIN counters USING (run, exec_no, backend_no, counter)
LEFT JOIN moved USING (run, exec_no, counter)
