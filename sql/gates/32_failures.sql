-- gate: failures
-- asserts: No failure counter moved on any backend, lost ones included; pool_overflow and http_inflight_lost have gates
--          of their own.
-- cause: mesh; the request was sent and it failed
-- items: cell × class
-- needs: cells, counters, capabilities
-- reason: failures {}
-- between: space
WITH classes AS (
    SELECT DISTINCT counter
    FROM (SELECT counter FROM counters UNION ALL SELECT counter FROM capabilities)
    WHERE is_failure(counter) AND metric(counter) NOT IN ('pool_overflow', 'http_inflight_lost')
),
counted AS (
    SELECT
        cells.*,
        metric(classes.counter) AS class,
        returned AND counters.counter IS NULL AND NOT coalesce(counted, true) AS unmeasured,
        CASE WHEN counters.counter IS NULL THEN 0 ELSE counters.value END AS value
    FROM cells
    CROSS JOIN classes
    LEFT JOIN counters USING (exec_no, backend_no, counter)
    LEFT JOIN capabilities USING (counter)
)
SELECT
    target_no,
    node,
    cell || ' ' || class AS item,
    CASE
        WHEN state <> 'graded' OR NOT returned OR value IS NULL THEN 'SKIP'
        WHEN unmeasured THEN 'UNMEASURED'
        WHEN value > 0 THEN 'FAIL'
        WHEN value = 0 THEN 'PASS'
    END AS verdict,
    class,
    value AS count,
    'mesh' AS cause,
    class || '=' || sum(value) OVER (PARTITION BY target_no, class) || ' [' AS lead,
    node || '=' || value AS part,
    ']' AS tail
FROM counted
ORDER BY target_no, class, backend_no
