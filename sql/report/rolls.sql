-- query: rolls
-- asks: What was to be rolled, and what happened?
-- A planned roll is matched with the churn's line that names the same kind and part and the same planned second.
WITH
rolled AS (
    SELECT * FROM events WHERE source = 'churn' AND outcome IN ('ROLLED', 'FAILED')
)
SELECT
    coalesce(plan_rolls.at_s, rolled.at_s) AS at_s,
    coalesce(plan_rolls.kind, rolled.kind) AS kind,
    coalesce(plan_rolls.name, rolled.name) AS name,
    plan_rolls.roll_no IS NOT NULL AS planned,
    coalesce(rolled.outcome, 'NOT ROLLED') AS outcome,
    rolled.took_ms,
    rolled.detail
FROM plan_rolls
FULL OUTER JOIN rolled
    ON rolled.kind = plan_rolls.kind AND rolled.name = plan_rolls.name AND abs(rolled.at_s - plan_rolls.at_s) < 0.5
ORDER BY at_s, kind, name
