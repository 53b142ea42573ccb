-- gate: driver_saturated
-- asserts: No engine's own queue overflowed.
-- cause: driver; these requests were never sent, so the mesh did not fail them. Mesh where requests that it had not
--        answered held every connection: then a full queue is what a stalled mesh looks like from here
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
        WHEN not_sent > 0 THEN 'FAIL'
        WHEN not_sent = 0 THEN 'PASS'
        WHEN bad_counters IS NOT NULL THEN 'SKIP' -- no count: bad_counters says so
        ELSE 'UNMEASURED'
    END AS verdict,
    not_sent_class AS class,
    not_sent AS count,
    CASE WHEN held THEN 'mesh' ELSE 'driver' END AS cause,
    'driver saturated: ' || sum(not_sent) OVER (PARTITION BY run, target_no, held) || ' request(s) not sent [' AS lead,
    node || '=' || not_sent AS part,
    CASE
        WHEN held
            THEN '] (' || not_sent_class || ': every connection was held by a request that the mesh had not answered)'
        WHEN not_sent_class ^@ 'k6.'
            THEN '] (' || not_sent_class || ': no virtual user was free to send them, the mesh never saw them)'
        ELSE '] (' || not_sent_class || ': the engine''s own queue was full, the mesh never saw them)'
    END AS tail
FROM cells
