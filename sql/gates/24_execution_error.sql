-- gate: execution_error
-- asserts: No execution failed as a whole, unless lost or refusing backends say why.
-- cause: driver; the error is the driver's own sentence
-- items: target
-- needs: target_states
SELECT
    run,
    target_no,
    'execution' AS item,
    judge(state, error IS NOT NULL AND lost = 0 AND NOT is_refused) AS verdict,
    'driver' AS cause,
    'error: ' || error AS lead
FROM target_states
