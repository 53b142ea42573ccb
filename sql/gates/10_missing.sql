-- gate: missing
-- asserts: Every planned target has an execution in the report.
-- cause: driver; without an execution nothing says that the target was ever driven
-- items: target
-- needs: target_states
SELECT
    run,
    target_no,
    'execution' AS item,
    CASE WHEN state = 'missing' THEN 'FAIL' WHEN state <> 'missing' THEN 'PASS' END AS verdict,
    'driver' AS cause,
    'missing from the report (never driven)' AS lead
FROM target_states
