-- query: ladders
-- asks: What did each ladder come to: its arm and tier, how high it went, its knee, what bound it, and the runner-up?
-- params: run=
-- A number of one arm is never one of the other: capacity is an upper bound on supervisor and workers, realism a density.
-- knee_floor_c is the highest healthy rung, and the knee lies from knee_lo_c to knee_hi_c; NULL in a ladder that was not
-- graded yet, or may not be quoted. origin is published where others published the rungs: said is then what they concluded,
-- and `harness adopt FILE --format e8` takes the file in, so that it can be graded by today's rules.
WITH every_ladder AS (
    SELECT 'tables' AS origin, * FROM ladders
    UNION ALL BY NAME
    SELECT 'published' AS origin, * FROM published_ladders
),
every_rung AS (
    SELECT run, c, throughput_tps FROM rungs
    UNION ALL
    SELECT run, c, throughput_tps FROM published_rungs
),
reached AS (
    SELECT
        run,
        max(c) AS top_c,
        max(throughput_tps) AS best_turns_per_s,
        arg_max(c, throughput_tps) AS best_at_c
    FROM every_rung
    GROUP BY run
)
SELECT
    run,
    origin,
    every_ladder.arm,
    measured,
    verdict,
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
    coalesce(reason, source_where) AS reason_or_source
FROM every_ladder
LEFT JOIN reached USING (run)
LEFT JOIN ladder_verdicts USING (run)
WHERE $run IN ('', run)
ORDER BY origin = 'published', run
