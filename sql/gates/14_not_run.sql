-- gate: not_run
-- asserts: Every planned target was attempted.
-- cause: driver; it marks what it never attempted
-- items: target
-- needs: target_states, executions
SELECT
    target_states.run,
    target_no,
    'execution' AS item,
    CASE WHEN state = 'not_run' THEN 'FAIL' WHEN state <> 'not_run' THEN 'PASS' END AS verdict,
    'driver' AS cause,
    'NOT RUN: the driver never attempted it (' || coalesce(target_states.error, executions.error, 'no reason given')
        || ')' AS lead
FROM target_states
LEFT JOIN executions
    ON state = 'not_run' AND executions.run = target_states.run AND executions.label = target_states.label
