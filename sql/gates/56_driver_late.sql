-- gate: driver_late
-- asserts: On every survivor, 99 % of the requests were written no later than the limit after their intended time,
--          the wait for a free connection apart: that one a slow server makes, not the engine. Without a limit, or
--          in a report without the statistic, this is not measured, and no finding.
-- cause: driver; its own lateness, which the mesh cannot cause
-- items: cell
-- needs: cells
-- unmeasured: note
SELECT
    run,
    target_no,
    place,
    node,
    cell AS item,
    CASE
        WHEN state <> 'graded' OR NOT survivor THEN 'SKIP'
        WHEN max_send_delay_ms IS NULL OR lateness_p99_ns IS NULL THEN 'UNMEASURED'
        WHEN lateness_p99_ns > max_send_delay_ms * 1e6 THEN 'FAIL'
        WHEN lateness_p99_ns <= max_send_delay_ms * 1e6 THEN 'PASS'
    END AS verdict,
    'driver' AS cause,
    'driver late: p99 of the send delay over ' || brief(max_send_delay_ms) || 'ms on [' AS lead,
    node || '=' || brief(lateness_p99_ns / 1e6) || 'ms' AS part,
    '] (the engine itself wrote these requests late)' AS tail
FROM cells
