-- gate: no_results
-- asserts: An execution without error and without lost backends has results.
-- cause: evidence; the driver says that all went well and shows nothing
-- items: target
-- needs: target_states
SELECT
    run,
    target_no,
    'execution' AS item,
    judge(state, results = 0 AND lost = 0 AND error IS NULL) AS verdict,
    'evidence' AS cause,
    'no per-backend results in the report (nothing can be counted)' AS lead
FROM target_states
