-- gate: short_run
-- asserts: An execution without error took at least its duration, and its duration is the run's.
-- cause: driver; a millisecond less and the plan was not carried out
-- items: target
-- needs: target_states, runs
WITH timed AS (
    SELECT *, coalesce(elapsed_ms, 0) < coalesce(duration_ms, 0) AS short,
        coalesce(duration_ms, 0) <> coalesce(duration_s * 1000, duration_ms, 0) AS other
    FROM target_states
    JOIN runs USING (run)
)
SELECT
    target_no,
    'execution' AS item,
    judge(state, error IS NULL AND (short OR other)) AS verdict,
    'driver' AS cause,
    CASE
        WHEN short THEN 'ran ' || coalesce(elapsed_ms::VARCHAR, '?') || 'ms of ' || duration_ms || 'ms'
        ELSE 'planned ' || coalesce(duration_ms::VARCHAR, '?') || 'ms in the report, ' || duration_s || 's in run.env'
    END AS lead
FROM timed
