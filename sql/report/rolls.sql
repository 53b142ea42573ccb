-- query: rolls
-- asks: What was to be rolled, and what happened?
-- As the gate pairs them: the n-th planned roll of a proxy or target is the n-th attempt at it in churn.log.
WITH
planned AS (
    SELECT *, row_number() OVER (PARTITION BY kind, name ORDER BY roll_no) AS nth FROM plan_rolls
),
attempts AS (
    SELECT *, row_number() OVER (PARTITION BY kind, name ORDER BY event_no) AS nth
    FROM events
    WHERE source = 'churn' AND outcome IN ('ROLLED', 'FAILED')
)
SELECT
    coalesce(planned.at_s, attempts.at_s) AS at_s,
    kind,
    name,
    planned.roll_no IS NOT NULL AS planned,
    coalesce(attempts.outcome, 'NOT ROLLED') AS outcome,
    attempts.took_ms,
    attempts.detail
FROM planned
FULL JOIN attempts USING (kind, name, nth)
ORDER BY at_s, kind, name
