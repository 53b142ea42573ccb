-- gate: short_run
-- asserts: An execution without error took at least its duration, and its duration is the run's. A producer without a
--          driver's clock does not measure the first.
-- cause: driver; a millisecond less and the plan was not carried out
-- items: target
-- needs: target_states, runs
-- unmeasured: note
WITH timed AS (
    SELECT
        target_states.*,
        duration_s,
        coalesce(elapsed_ms, 0) < coalesce(duration_ms, 0) AS short,
        coalesce(duration_ms, 0) <> coalesce(duration_s * 1000, duration_ms, 0) AS other
    FROM target_states
    JOIN runs USING (run)
)
SELECT
    run,
    target_no,
    'execution' AS item,
    CASE
        WHEN state = 'graded' AND NOT times_it AND elapsed_ms IS NULL AND NOT other THEN 'UNMEASURED'
        ELSE judge(state, error IS NULL AND (short OR other))
    END AS verdict,
    'driver' AS cause,
    CASE
        WHEN other
            THEN 'planned ' || coalesce(duration_ms::VARCHAR, '?') || 'ms in the report, ' || duration_s
                || 's in run.env'
        ELSE 'ran ' || coalesce(elapsed_ms::VARCHAR, '?') || 'ms of ' || duration_ms || 'ms'
    END AS lead
FROM timed
