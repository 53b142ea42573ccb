-- query: ladders
-- asks: What did each ladder come to: its arm and tier, how high it went, its knee, what bound it, and the runner-up?
-- params: run=
-- A number of one arm is never one of the other: capacity is an upper bound on supervisor and workers, realism a density.
-- knee_floor_c is the highest healthy rung, and the knee lies from knee_lo_c to knee_hi_c; NULL in a ladder that was not
-- graded yet, or may not be quoted. origin is published where others published the rungs: said is then what they concluded,
-- and `harness adopt FILE --format e8` takes the file in, so that it can be graded by today's rules.
-- origin is no tables where none were made yet, or none can be believed: reason_or_source says why. best_turns_per_s is of
-- the rungs in which as many turns succeeded as a level needs (success_floor in ladder_thresholds): what is finished in a
-- rung that is cut off is no throughput of the tier.
WITH every_ladder AS (
    SELECT 'tables' AS origin, * FROM ladders
    UNION ALL BY NAME
    SELECT 'no tables' AS origin, run, state, reason AS why_none
    FROM run_folders
    WHERE kind = 'e8' AND run NOT IN (SELECT run FROM ladders)
    UNION ALL BY NAME
    SELECT 'published' AS origin, * FROM published_ladders
),
every_rung AS (
    SELECT run, c, success_rate, throughput_tps FROM rungs
    UNION ALL
    SELECT run, c, success_rate, throughput_tps FROM published_rungs
),
reached AS (
    SELECT
        run,
        max(c) AS top_c,
        max(throughput_tps) FILTER (success_rate >= floor.value) AS best_turns_per_s,
        arg_max(c, throughput_tps) FILTER (success_rate >= floor.value) AS best_at_c
    FROM every_rung
    CROSS JOIN (SELECT value FROM ladder_thresholds WHERE name = 'success_floor') AS floor
    GROUP BY run
)
SELECT
    run,
    origin,
    every_ladder.arm,
    measured,
    CASE state WHEN 'damaged' THEN 'DAMAGED' WHEN 'refused' THEN 'REFUSED' ELSE verdict END AS verdict,
    answer AS knee,
    floor_c AS knee_floor_c,
    lo_c AS knee_lo_c,
    hi_c AS knee_hi_c,
    bound,
    runner_up,
    workers,
    turns_per_worker,
    pool,
    cap,
    top_c,
    round(best_turns_per_s, 3) AS best_turns_per_s,
    best_at_c,
    source_said AS said,
    coalesce(CASE WHEN state <> 'none' THEN why_none END, reason, why_none, source_where) AS reason_or_source
FROM every_ladder
LEFT JOIN reached USING (run)
LEFT JOIN ladder_verdicts USING (run)
WHERE $run IN ('', run)
ORDER BY origin = 'published', run
