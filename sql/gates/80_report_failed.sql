-- gate: report_failed
-- asserts: The driver says of every target, and of the run, that it passed, or a finding says why it did not; and where
--          no finding is, no two statements in the evidence contradict each other: not within the report, and not the
--          report, plan, share table, engine list, log and stream among themselves. A producer that judges nothing is
--          not asked for the first.
-- cause: evidence; the driver saw a failure that the results do not show, or one of two statements was damaged
-- items: target, run
-- needs: target_states, runs, findings
-- unmeasured: note
WITH told AS (
    SELECT run, target_no, count(*) AS findings FROM findings GROUP BY run, target_no
),
whole AS (
    SELECT
        run,
        bool_or(findings > 0) AS any_finding,
        bool_or(passed IS DISTINCT FROM true AND judges_it) AS any_not_passed
    FROM target_states
    FULL JOIN told USING (run, target_no)
    GROUP BY run
)
SELECT
    run,
    target_no,
    'execution' AS item,
    CASE
        WHEN state = 'graded' AND NOT judges_it AND passed IS NULL AND contradiction IS NULL THEN 'UNMEASURED'
        ELSE judge(state, (passed IS DISTINCT FROM true OR contradiction IS NOT NULL) AND findings IS NULL)
    END AS verdict,
    'evidence' AS cause,
    NULL AS subject,
    CASE
        WHEN contradiction IS NOT NULL THEN 'the evidence contradicts itself: ' || contradiction
        WHEN passed IS NULL THEN 'the report does not say that it passed'
        ELSE 'the report says pass=false and nothing in it says why'
    END AS lead
FROM target_states
LEFT JOIN told USING (run, target_no)
UNION ALL
-- an execution that says false is judged above; here nothing does, and the report as a whole still says false
SELECT
    run,
    NULL,
    'report',
    CASE
        WHEN any_finding OR any_not_passed THEN 'PASS'
        WHEN contradiction IS NOT NULL OR NOT report_pass THEN 'FAIL'
        ELSE 'PASS'
    END,
    'evidence',
    CASE WHEN contradiction IS NULL THEN 'report.json' ELSE 'evidence' END,
    coalesce(
        'the evidence contradicts itself: ' || contradiction,
        'the report says pass=false and nothing in it says why'
    )
FROM runs
LEFT JOIN whole USING (run)
