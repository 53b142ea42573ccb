-- gate: churn_incomplete
-- asserts: Where the plan holds a schedule, every planned roll was done: the n-th planned roll of a proxy or target is
--          the n-th attempt at it in churn.log, and that attempt succeeded, and nothing else was rolled. Without a
--          schedule, every attempt in churn.log succeeded. In neither was the churn aborted.
-- cause: driver; the harness's own rolls. Evidence where there is no churn.log, or the schedule holds no roll
-- items: run, roll
-- needs: runs, plan_rolls, events
WITH planned AS (
    SELECT *, row_number() OVER (PARTITION BY run, kind, name ORDER BY roll_no) AS nth FROM plan_rolls
),
attempts AS (
    SELECT run, kind, name, outcome, row_number() OVER (PARTITION BY run, kind, name ORDER BY event_no) AS nth
    FROM events
    WHERE source = 'churn' AND outcome IN ('ROLLED', 'FAILED')
),
counted AS (
    SELECT runs.*, coalesce(aborts, 0) AS aborts, detail, coalesce(rolls, 0) AS rolls
    FROM runs
    LEFT JOIN (
        SELECT run, count(*) AS aborts, min(detail) AS detail
        FROM events
        WHERE source = 'churn' AND outcome = 'ABORTED'
        GROUP BY run
    ) USING (run)
    LEFT JOIN (SELECT run, count(*) AS rolls FROM plan_rolls GROUP BY run) USING (run)
),
items AS (
    SELECT
        run,
        0 AS place,
        'churn' AS item,
        CASE
            WHEN NOT schedule_present AND aborts = 0 THEN 'SKIP'
            WHEN aborts > 0 OR NOT churn_log_present OR rolls = 0 THEN 'FAIL'
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
    FROM counted
    UNION ALL
    SELECT
        run,
        roll_no,
        'roll ' || roll_no,
        CASE WHEN outcome = 'ROLLED' THEN 'PASS' ELSE 'FAIL' END,
        CASE WHEN churn_log_present THEN 'driver' ELSE 'evidence' END,
        'planned rolls that ' || CASE WHEN outcome IS NULL THEN 'did not happen' ELSE 'failed' END || ' [',
        kind || '/' || name || '@' || brief(at_s) || 's',
        ']'
    FROM planned
    JOIN (SELECT run, churn_log_present FROM runs) USING (run)
    LEFT JOIN attempts USING (run, kind, name, nth)
    UNION ALL
    SELECT
        run,
        NULL,
        'attempt ' || nth || ' at ' || kind || '/' || name,
        'FAIL',
        'driver',
        'rolls that were not planned [',
        kind || '/' || name,
        ']'
    FROM attempts
    JOIN (SELECT run FROM runs WHERE schedule_present) USING (run)
    ANTI JOIN planned USING (run, kind, name, nth)
    UNION ALL
    SELECT run, NULL, 'attempt ' || nth || ' at ' || kind || '/' || name, 'FAIL', 'driver', 'rolls that failed [',
        kind || '/' || name, ']'
    FROM attempts
    JOIN (SELECT run FROM runs WHERE NOT schedule_present) USING (run)
    WHERE outcome = 'FAILED'
)
SELECT run, place, item, verdict, cause, 'churn.log' AS subject, lead, part, tail
FROM items
