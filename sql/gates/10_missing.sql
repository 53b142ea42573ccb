-- gate: missing
-- asserts: Every planned target has an execution in the report.
-- cause: driver; without an execution nothing says that the target was ever driven. Evidence where a line of the
--        results stream is torn: it may have been this target's
-- items: target
-- needs: target_states, runs
SELECT
    run,
    target_no,
    'execution' AS item,
    CASE WHEN state = 'missing' THEN 'FAIL' WHEN state <> 'missing' THEN 'PASS' END AS verdict,
    CASE WHEN skipped_lines > 0 THEN 'evidence' ELSE 'driver' END AS cause,
    CASE
        WHEN source <> 'stream' THEN 'missing from the report (never driven)'
        WHEN skipped_lines > 0 THEN 'missing from the results stream (never finished, or its line is torn)'
        ELSE 'missing from the results stream (never finished)'
    END AS lead
FROM target_states
JOIN runs USING (run)
