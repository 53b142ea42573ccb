-- gate: report_failed
-- asserts: The driver says of every target, and of the run, that it passed, or a finding says why it did not.
-- cause: evidence; the driver saw a failure that the report does not show
-- items: target, run
-- needs: target_states, runs, findings
SELECT
    target_no,
    'execution' AS item,
    judge(state, passed IS DISTINCT FROM true AND target_no NOT IN (SELECT target_no FROM findings WHERE target_no > 0)) AS verdict,
    'evidence' AS cause,
    NULL AS subject,
    CASE WHEN passed IS NULL THEN 'the report does not say that it passed' ELSE 'the report says pass=false and nothing in it says why' END AS lead
FROM target_states
UNION ALL
SELECT
    NULL,
    'report',
    CASE
        WHEN report_pass IS NOT DISTINCT FROM false
            AND NOT EXISTS (SELECT 1 FROM findings)
            AND NOT EXISTS (SELECT 1 FROM target_states WHERE passed IS DISTINCT FROM true) THEN 'FAIL'
        ELSE 'PASS'
    END,
    'evidence',
    'report.json',
    'the report says pass=false and nothing in it says why'
FROM runs
