-- query: rungs
-- asks: What did each rung of each ladder measure: success, throughput, latency, and how busy was every tier?
-- params: run=
-- Utilisations are of what the tier may use: workers of min(W, cores), host of the target's cores, sandboxes of the pool.
-- Latency is of one arm, and is not to be held against the other's.
WITH every_rung AS (
    SELECT * FROM rungs
    UNION ALL BY NAME
    SELECT * FROM published_rungs
)
SELECT
    run,
    arm,
    c,
    repeat,
    round(success_rate, 4) AS success_rate,
    round(throughput_tps, 3) AS turns_per_s,
    p50_ms,
    p95_ms,
    round(worker_cpu_util_pct, 1) AS worker_pct,
    round(host_cpu_util_pct, 1) AS host_pct,
    round(sandbox_util_pct, 1) AS sandbox_pct,
    round(worker_cpu_ms_per_turn, 1) AS worker_ms_per_turn,
    lease_saturation,
    achieved_c
FROM every_rung
WHERE $run IN ('', run)
ORDER BY run, c, repeat
