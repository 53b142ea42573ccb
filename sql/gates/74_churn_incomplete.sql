-- gate: churn_incomplete
-- asserts: Where the plan holds a schedule, every planned roll was done: the n-th planned roll of a proxy or target is
--          the n-th attempt at it in churn.log, and that attempt succeeded. The churn was not aborted.
-- cause: driver; the harness's own rolls. Evidence where there is no churn.log, or the schedule holds no roll
-- items: run, roll
-- needs: runs, plan_rolls, events
WITH planned AS (
    SELECT *, row_number() OVER (PARTITION BY kind, name ORDER BY roll_no) AS nth FROM plan_rolls
),
attempts AS (
    SELECT kind, name, outcome, row_number() OVER (PARTITION BY kind, name ORDER BY event_no) AS nth
    FROM events
    WHERE source = 'churn' AND outcome IN ('ROLLED', 'FAILED')
),
aborted AS (
    SELECT count(*) AS aborts, min(detail) AS detail FROM events WHERE source = 'churn' AND outcome = 'ABORTED'
),
items AS (
    SELECT
        0 AS place,
        'churn' AS item,
        CASE
            WHEN NOT schedule_present THEN 'SKIP'
            WHEN aborts > 0 OR NOT churn_log_present OR (SELECT count(*) FROM plan_rolls) = 0 THEN 'FAIL'
            WHEN aborts = 0 THEN 'PASS'
        END AS verdict,
        CASE WHEN aborts > 0 THEN 'driver' ELSE 'evidence' END AS cause,
        CASE
            WHEN aborts > 0 THEN 'churn incomplete: ' || detail
            WHEN NOT churn_log_present THEN 'churn incomplete: a schedule was planned, and there is no churn.log'
            ELSE 'churn incomplete: the schedule holds no roll'
        END AS lead,
        NULL AS part,
        NULL AS tail
    FROM runs
    CROSS JOIN aborted
    UNION ALL
    SELECT
        roll_no,
        'roll ' || roll_no,
        CASE WHEN outcome = 'ROLLED' THEN 'PASS' ELSE 'FAIL' END,
        CASE WHEN churn_log_present THEN 'driver' ELSE 'evidence' END,
        'planned rolls that ' || CASE WHEN outcome IS NULL THEN 'did not happen' ELSE 'failed' END || ' [',
        planned.kind || '/' || planned.name || '@' || brief(at_s) || 's',
        ']'
    FROM planned
    CROSS JOIN runs
    LEFT JOIN attempts
        ON attempts.kind = planned.kind AND attempts.name = planned.name AND attempts.nth = planned.nth
)
SELECT item, verdict, cause, 'churn.log' AS subject, lead, part, tail
FROM items
ORDER BY place
