-- query: compare-ladders
-- asks: How does a ladder stand beside another, rung by rung, and are the two alike enough to be compared?
-- params: run base
-- Two ladders of one arm. Latency is never compared across arms: where the arms differ, or one is not recorded, the
-- question is refused. unlike names what else makes the two incomparable, or is broken in either: what they were measured
-- on, with what, and by what they were judged; where it is not NULL, there is no ratio. Successes of repeats are added up,
-- as the gate does; where they were not counted, the lowest stands. Pins and settings are compared where both ladders recorded them.
WITH every_ladder AS (
    SELECT * FROM ladders
    UNION ALL BY NAME
    SELECT * FROM published_ladders
),
every_rung AS (
    SELECT * FROM rungs
    UNION ALL BY NAME
    SELECT * FROM published_rungs
),
judged AS (
    SELECT
        run,
        coalesce(degrade_x, (SELECT value FROM ladder_thresholds WHERE name = 'degrade_x')) AS degrade_x,
        coalesce(min_c, (SELECT value::BIGINT FROM ladder_thresholds WHERE name = 'min_c')) AS min_c
    FROM every_ladder
),
pins AS (
    SELECT
        run,
        string_agg(DISTINCT says, '; ' ORDER BY says) AS says
    FROM rung_notes
    WHERE about = 'system' AND name = 'pins' AND run IN ($run, $base)
    GROUP BY run
),
other_settings AS (
    SELECT string_agg(key, '; ' ORDER BY key) AS keys
    FROM settings AS mine
    JOIN settings AS theirs USING (key)
    WHERE
        mine.run = $run
        AND theirs.run = $base
        AND key IN ('e8.schedule', 'e8.body', 'e8.turn_timeout_s')
        AND mine.value <> theirs.value
),
pair AS (
    SELECT
        CASE
            WHEN a.arm = b.arm THEN a.arm
            ELSE error(
                'refused: ' || $run || ' is of ' || coalesce('the ' || a.arm || ' arm', 'an arm that is not recorded')
                || ' and ' || $base || ' of ' || coalesce('the ' || b.arm || ' arm', 'one that is not recorded')
                || ', and latency is never compared across arms; `harness sql ladders` lists each under its own'
            )
        END AS arm,
        nullif(
            concat_ws(
                '; ',
                CASE
                    WHEN EXISTS (FROM ladder_verdicts WHERE run IN ($run, $base) AND verdict = 'REFUSED')
                        THEN 'a verdict of REFUSED'
                END,
                CASE
                    WHEN EXISTS (FROM settings WHERE run IN ($run, $base) AND key = 'fault' AND value <> '')
                        THEN 'a drill'
                END,
                CASE WHEN a.measured IS DISTINCT FROM b.measured OR a.measured IS NULL THEN 'target' END,
                CASE WHEN a.workers IS DISTINCT FROM b.workers THEN 'workers' END,
                CASE WHEN a.turns_per_worker IS DISTINCT FROM b.turns_per_worker THEN 'turns per worker' END,
                CASE WHEN a.pool IS DISTINCT FROM b.pool OR a.cap IS DISTINCT FROM b.cap THEN 'sandboxes or leases' END,
                CASE WHEN a.cores IS DISTINCT FROM b.cores THEN 'cores' END,
                CASE
                    WHEN (a.ttft_ms, a.token_delay_ms, a.output_tokens, a.tool_call_rate)
                        IS DISTINCT FROM (b.ttft_ms, b.token_delay_ms, b.output_tokens, b.tool_call_rate)
                        OR a.ttft_ms IS NULL
                        THEN 'stub profile'
                END,
                CASE WHEN a.basis IS DISTINCT FROM b.basis THEN 'duty basis' END,
                CASE
                    WHEN a.turns_per_client IS DISTINCT FROM b.turns_per_client
                        THEN concat(
                            'turns per client ',
                            coalesce(a.turns_per_client::VARCHAR, 'not recorded'),
                            ' and ',
                            coalesce(b.turns_per_client::VARCHAR, 'not recorded')
                        )
                END,
                CASE
                    WHEN
                        abs(a.host_rest_pct - b.host_rest_pct) > 5
                        OR (a.host_rest_pct IS NULL) <> (b.host_rest_pct IS NULL)
                        THEN concat(
                            'host at rest ',
                            coalesce(round(a.host_rest_pct, 1) || ' %', 'not recorded'),
                            ' and ',
                            coalesce(round(b.host_rest_pct, 1) || ' %', 'not recorded')
                        )
                END,
                CASE
                    WHEN ja.degrade_x <> jb.degrade_x THEN concat('p95 bound ', ja.degrade_x, ' and ', jb.degrade_x)
                END,
                CASE WHEN ja.min_c <> jb.min_c THEN concat('least knee ', ja.min_c, ' and ', jb.min_c) END,
                CASE
                    WHEN a.success_by IS DISTINCT FROM b.success_by
                        THEN concat(
                            'success by ',
                            coalesce(a.success_by, 'what is not recorded'),
                            ' and ',
                            coalesce(b.success_by, 'what is not recorded')
                        )
                END,
                CASE
                    WHEN (SELECT says FROM pins WHERE run = $run) <> (SELECT says FROM pins WHERE run = $base) THEN 'pins'
                END,
                (SELECT keys FROM other_settings)
            ),
            ''
        ) AS unlike
    FROM every_ladder AS a
    JOIN every_ladder AS b ON a.run = $run AND b.run = $base
    JOIN judged AS ja ON ja.run = a.run
    JOIN judged AS jb ON jb.run = b.run
),
levels AS (
    SELECT
        run,
        c,
        CASE
            WHEN count(attempts) = count(*) AND count(ok) = count(*) THEN sum(ok) / nullif(sum(attempts), 0)
            ELSE min(success_rate)
        END AS success_rate,
        median(throughput_tps) AS turns_per_s,
        median(p50_ms) AS p50_ms,
        median(p95_ms) AS p95_ms,
        median(worker_cpu_ms_per_turn) AS worker_ms_per_turn
    FROM every_rung
    WHERE run IN ($run, $base)
    GROUP BY run, c
)
SELECT
    pair.arm,
    c,
    round(mine.success_rate, 4) AS success_rate,
    round(base.success_rate, 4) AS base_success_rate,
    round(mine.turns_per_s, 3) AS turns_per_s,
    round(base.turns_per_s, 3) AS base_turns_per_s,
    CASE WHEN unlike IS NULL THEN round(mine.turns_per_s / nullif(base.turns_per_s, 0), 3) END AS turns_ratio,
    mine.p50_ms AS p50_ms,
    base.p50_ms AS base_p50_ms,
    mine.p95_ms AS p95_ms,
    base.p95_ms AS base_p95_ms,
    CASE WHEN unlike IS NULL THEN round(mine.p95_ms / nullif(base.p95_ms, 0), 3) END AS p95_ratio,
    round(mine.worker_ms_per_turn, 1) AS worker_ms_per_turn,
    round(base.worker_ms_per_turn, 1) AS base_worker_ms_per_turn,
    unlike
FROM (SELECT * FROM levels WHERE run = $run) AS mine
FULL JOIN (SELECT * FROM levels WHERE run = $base) AS base USING (c)
CROSS JOIN pair
ORDER BY c
