-- gate: duplicate
-- asserts: No planned target has more than one execution.
-- cause: evidence; two runs share the file, and nothing decides which of them counts
-- items: target
-- needs: target_states
SELECT
    run,
    target_no,
    'execution' AS item,
    CASE WHEN state = 'duplicate' THEN 'FAIL' WHEN state <> 'duplicate' THEN 'PASS' END AS verdict,
    executions AS count,
    'evidence' AS cause,
    'listed ' || executions || ' times (started_at ' || starts
        || '): two runs share this file, and nothing says which of them counts' AS lead
FROM target_states
