-- gate: unplanned_target
-- asserts: Every execution of the report has a row in the share table.
-- cause: plan; the report and the share table are of two plans
-- items: run
-- needs: runs, executions, plan_targets
WITH strangers AS (
    SELECT run, label, bool_or(not_run) AS not_run
    FROM executions
    ANTI JOIN plan_targets USING (run, label)
    GROUP BY run, label
)
SELECT
    run,
    'label ' || coalesce(label, '') AS item,
    CASE WHEN label IS NULL THEN 'PASS' ELSE 'FAIL' END AS verdict,
    'plan' AS cause,
    label AS subject,
    'in the report but not in the share table (a different plan?)'
        || CASE WHEN not_run THEN ' and NOT RUN' ELSE '' END AS lead
FROM runs
LEFT JOIN strangers USING (run)
