-- gate: report_failed
-- asserts: The driver says of every target, and of the run, that it passed, or a finding says why it did not; and where
--          no finding is, the failures and totals of the report name no count that its results do not have.
-- cause: evidence; the driver saw a failure that the results do not show
-- items: target, run
-- needs: target_states, runs, findings
SELECT
    target_no,
    'execution' AS item,
    judge(
        state,
        (passed IS DISTINCT FROM true OR contradiction IS NOT NULL) AND NOT EXISTS (
            SELECT 1 FROM findings WHERE findings.target_no = target_states.target_no
        )
    ) AS verdict,
    'evidence' AS cause,
    NULL AS subject,
    CASE
        WHEN contradiction IS NOT NULL THEN 'the report contradicts itself: ' || contradiction
        WHEN passed IS NULL THEN 'the report does not say that it passed'
        ELSE 'the report says pass=false and nothing in it says why'
    END AS lead
FROM target_states
UNION ALL
-- an execution that says false is judged above; here nothing does, and the report as a whole still says false
SELECT
    NULL,
    'report',
    CASE
        WHEN coalesce(report_pass, true)
            OR EXISTS (SELECT 1 FROM findings)
            OR EXISTS (SELECT 1 FROM target_states WHERE passed IS DISTINCT FROM true) THEN 'PASS'
        ELSE 'FAIL'
    END,
    'evidence',
    'report.json',
    'the report says pass=false and nothing in it says why'
FROM runs
