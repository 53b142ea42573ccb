-- table: levels
-- asks: What did each concurrency come to over its repeats, and is it in the ladder or cut off?
-- Medians over the repeats, so that one bad repeat of three decides nothing; counts are added up. A level whose turns
-- did not succeed often enough is cut off with all above it: it measured refusals, and what lies above was not reached. So
-- is a level that was bound by its generator (client_bound, which the rule generator_bound says): it measured the client.
-- Refusals are known where each repeat counted them, or where some were seen; of turns that all succeeded there were none.
-- late: a rung of it, or a repeat, ended by its deadline with turns unsent.
WITH workers AS (
    SELECT run, c, repeat, max(lag_p99_ms) AS lag_p99_ms, max(rss_bytes) AS rss_bytes
    FROM rung_workers
    GROUP BY run, c, repeat
),
folded AS (
    SELECT
        run,
        c,
        count(*) AS repeats,
        sum(attempts) AS attempts,
        sum(ok) AS ok,
        CASE
            WHEN count(attempts) = count(*) AND count(ok) = count(*) THEN sum(ok) / nullif(sum(attempts), 0)
            ELSE min(success_rate)
        END AS success_rate,
        coalesce(bool_or(ended = $rung_deadline), false) AS late,
        median(throughput_tps) AS throughput_tps,
        median(p50_ms) AS p50_ms,
        median(p95_ms) AS p95_ms,
        CASE WHEN count(refused_429) = count(*) OR sum(refused_429) > 0 THEN sum(refused_429) END AS refused_429,
        CASE WHEN count(refused_503) = count(*) OR sum(refused_503) > 0 THEN sum(refused_503) END AS refused_503,
        sum(coalesce(refused_429, 0) + coalesce(errors_in_200, 0) + coalesce(timed_out, 0) + coalesce(failed_otherwise, 0))
            AS failed_else,
        sum(attempts) - sum(ok) AS failed,
        max(coalesce(rungs.turns_per_client, attempts / c)) AS turns_per_client,
        median(worker_cpu_util_pct) AS worker_cpu_util_pct,
        median(host_cpu_util_pct) AS host_cpu_util_pct,
        median(sandbox_util_pct) AS sandbox_util_pct,
        median(lease_saturation) AS lease_saturation,
        median(100000 * (generator_cpu_s + generator_wait_s) / wall_ms) AS generator_cpu_pct,
        median(coalesce(workers.lag_p99_ms, lag_p99_worst_ms)) AS lag_p99_ms,
        max(workers.rss_bytes) AS rss_bytes,
        sum(worker_cpu_s) / nullif(sum(ok) FILTER (worker_cpu_s IS NOT NULL), 0) * 1000 AS worker_cpu_ms_per_turn
    FROM rungs
    LEFT JOIN workers USING (run, c, repeat)
    GROUP BY run, c
),
placed AS (
    SELECT
        folded.*,
        row_number() OVER upwards AS place,
        bool_or(bound_c IS NOT NULL) OVER upwards AS client_bound,
        bool_and(coalesce(success_rate >= $success_floor, false)) OVER upwards AS succeeds
    FROM folded
    LEFT JOIN (SELECT DISTINCT run, c AS bound_c FROM client_bound_rungs) AS bound
        ON bound.run = folded.run AND bound.bound_c = folded.c
    WINDOW upwards AS (PARTITION BY folded.run ORDER BY c)
)
SELECT
    *,
    succeeds AND NOT client_bound AS in_ladder,
    lead(CASE WHEN succeeds AND NOT client_bound THEN throughput_tps END) OVER (PARTITION BY run ORDER BY c)
        AS next_throughput_tps
FROM placed
