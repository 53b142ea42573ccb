-- gate: driver_saturated
-- asserts: No engine's own queue overflowed.
-- cause: driver; these requests were never sent, so the mesh did not fail them. Mesh where requests that it had not
--        answered held every connection: then a full queue is what a stalled mesh looks like from here
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
    'pool_overflow' AS class,
    counters.value AS count,
    CASE WHEN held THEN 'mesh' ELSE 'driver' END AS cause,
    'driver saturated: ' || sum(counters.value) OVER (PARTITION BY target_no, held) || ' request(s) not sent [' AS lead,
    cells.node || '=' || counters.value AS part,
    CASE
        WHEN held THEN '] (pool_overflow: every connection was held by a request that the mesh had not answered)'
        ELSE '] (pool_overflow: the engine''s own queue was full, the mesh never saw them)'
    END AS tail
FROM cells
LEFT JOIN counters
    ON counters.exec_no = cells.exec_no
    AND counters.backend_no = cells.backend_no
    AND counters.counter = 'benchmark.pool_overflow'
ORDER BY target_no, cells.backend_no
