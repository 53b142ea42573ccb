-- gate: in_flight
-- asserts: Every request that was sent had an outcome before the engine stopped waiting.
-- cause: mesh; the engine sent it and waited its whole timeout, and no answer came
-- items: cell
-- needs: cells, counters
SELECT
    target_no,
    cells.node,
    cell AS item,
    CASE
        WHEN state <> 'graded' OR NOT returned THEN 'SKIP'
        WHEN counters.value > 0 THEN 'FAIL'
        WHEN counters.counter IS NULL OR counters.value = 0 THEN 'PASS'
        ELSE 'SKIP' -- no count: bad_counters says so
    END AS verdict,
    'http_inflight_lost' AS class,
    counters.value AS count,
    'mesh' AS cause,
    'in flight at the end: ' || sum(counters.value) OVER (PARTITION BY target_no)
        || ' request(s) with no outcome [' AS lead,
    cells.node || '=' || counters.value AS part,
    '] (http_inflight_lost: sent, and neither answered nor failed)' AS tail
FROM cells
LEFT JOIN counters
    ON counters.exec_no = cells.exec_no
    AND counters.backend_no = cells.backend_no
    AND counters.counter = 'benchmark.http_inflight_lost'
ORDER BY target_no, cells.backend_no
