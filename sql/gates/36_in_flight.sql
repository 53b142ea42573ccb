-- gate: in_flight
-- asserts: Every request that was sent had an outcome before the engine stopped waiting.
-- cause: mesh; the engine sent it and waited its whole timeout, and no answer came
-- items: cell
-- needs: cells
SELECT
    run,
    target_no,
    place,
    node,
    cell AS item,
    CASE
        WHEN state <> 'graded' OR NOT returned THEN 'SKIP'
        WHEN in_flight > 0 THEN 'FAIL'
        WHEN in_flight = 0 THEN 'PASS'
        WHEN bad_counters IS NOT NULL THEN 'SKIP' -- no count: bad_counters says so
        ELSE 'UNMEASURED'
    END AS verdict,
    'http_inflight_lost' AS class,
    in_flight AS count,
    'mesh' AS cause,
    'in flight at the end: ' || sum(in_flight) OVER (PARTITION BY run, target_no)
        || ' request(s) with no outcome [' AS lead,
    node || '=' || in_flight AS part,
    '] (http_inflight_lost: sent, and neither answered nor failed)' AS tail
FROM cells
