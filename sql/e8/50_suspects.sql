-- table: suspects
-- asks: Which tier stopped the ladder, and how near did each one come to that?
-- One row for each way to be convicted, in the order in which they are asked: the first that convicts is the bound.
-- ratio is the share of its threshold that a tier reached, NULL where it was not measured: such a tier is not cleared.
-- A ladder without a knee has no rows.
WITH knee AS (SELECT run, floor_c FROM knees WHERE answer = 'knee'),
at_knee AS (SELECT levels.* FROM levels JOIN knee ON levels.run = knee.run AND levels.c = knee.floor_c),
-- what was busier before the ladder than at c=1 had gone by then: it is no use at rest
first_rung AS (
    SELECT
        run,
        lag_p99_ms,
        CASE WHEN host_rest_pct IS NOT NULL THEN least(host_rest_pct, host_cpu_util_pct) END AS rest_pct
    FROM levels
    JOIN ladders USING (run)
    WHERE c = 1
),
-- what was seen at the knee or above it: a tier that is busier there than at the knee may be what stopped it
highest AS (
    SELECT
        levels.run,
        max(host_cpu_util_pct) AS host_pct,
        arg_max(c, host_cpu_util_pct) AS host_c,
        max(worker_cpu_util_pct) AS worker_pct,
        arg_max(c, worker_cpu_util_pct) AS worker_c,
        max(generator_cpu_pct) FILTER (in_ladder) AS generator_pct,
        arg_max(c, generator_cpu_pct) FILTER (in_ladder AND generator_cpu_pct IS NOT NULL) AS generator_c
    FROM levels
    JOIN knee ON levels.run = knee.run AND levels.c >= knee.floor_c AND NOT levels.client_bound
    GROUP BY levels.run
),
-- the level that was cut off: what its turns failed of
cut AS (
    SELECT
        levels.run,
        levels.c,
        failed,
        failed_else,
        refused_429,
        refused_503,
        ok / repeats AS ok,
        turns_per_client
    FROM levels
    JOIN (SELECT run, min(c) AS c FROM levels WHERE NOT succeeds AND NOT client_bound GROUP BY run) AS first_cut
        ON first_cut.run = levels.run AND first_cut.c = levels.c
),
leases AS (
    SELECT
        cut.*,
        pool * cap::DOUBLE * coalesce(cut.turns_per_client, ladders.turns_per_client) AS turns_of_all_leases,
        coalesce(
            c > pool * cap
            AND abs(ok - pool * cap::DOUBLE * coalesce(cut.turns_per_client, ladders.turns_per_client))
            <= $lease_signature_pct / 100 * pool * cap::DOUBLE * coalesce(cut.turns_per_client, ladders.turns_per_client)
            AND coalesce(refused_503, failed - failed_else) >= failed * $success_floor,
            false
        ) AS is_signature
    FROM cut
    JOIN ladders USING (run)
),
rows_of_each AS (
    SELECT
        run,
        1 AS place,
        'generator' AS bound,
        'the generator''s CPU, used or waited for, % of one core' AS what,
        generator_pct AS measured,
        $generator_cpu_bound_pct AS threshold,
        generator_c AS c,
        generator_pct / $generator_cpu_bound_pct AS ratio
    FROM highest
    UNION ALL
    SELECT
        at_knee.run,
        2,
        'admission-control',
        CASE
            WHEN at_knee.refused_429 IS NULL OR (cut.c IS NOT NULL AND cut.refused_429 IS NULL)
                THEN 'turns refused with 429, which not every rung counted'
            ELSE 'turns refused with 429'
        END,
        CASE
            WHEN at_knee.refused_429 > 0 OR cut.refused_429 IS NULL OR cut.refused_429 * 2 < cut.failed
                THEN at_knee.refused_429
            ELSE cut.refused_429
        END AS measured,
        1,
        CASE WHEN coalesce(at_knee.refused_429, 0) = 0 AND cut.refused_429 * 2 >= cut.failed THEN cut.c ELSE at_knee.c END,
        CASE
            WHEN at_knee.refused_429 > 0 OR coalesce(cut.failed > 0 AND cut.refused_429 * 2 >= cut.failed, false) THEN 1
            WHEN at_knee.refused_429 = 0 AND (cut.c IS NULL OR cut.refused_429 IS NOT NULL) THEN 0
        END
    FROM at_knee
    LEFT JOIN cut USING (run)
    UNION ALL
    SELECT
        run,
        3,
        'sandbox-pool',
        CASE
            WHEN is_signature THEN 'successes, where all leases together allow'
            WHEN refused_503 IS NULL THEN 'turns refused with 503 for want of a lease, which not every rung counted'
            ELSE 'turns refused with 503 for want of a lease'
        END,
        CASE WHEN is_signature THEN ok ELSE refused_503 END,
        CASE WHEN is_signature THEN turns_of_all_leases ELSE 1 END,
        c,
        CASE
            WHEN is_signature OR coalesce(refused_503 * 2 >= failed AND failed > 0, false) THEN 1
            WHEN refused_503 = 0 THEN 0
        END
    FROM leases
    UNION ALL
    SELECT
        run,
        4,
        'host-cpu',
        CASE
            WHEN rest_pct IS NULL THEN 'host CPU, % of the target''s cores, all that ran there'
            ELSE 'host CPU, % of the target''s cores above its use at rest'
        END,
        host_pct - coalesce(rest_pct, 0),
        $host_cpu_bound_pct,
        host_c,
        (host_pct - coalesce(rest_pct, 0)) / $host_cpu_bound_pct
    FROM highest
    LEFT JOIN first_rung USING (run)
    UNION ALL
    SELECT
        run,
        5,
        'worker-cpu',
        'worker CPU, % of the cores that the workers can use',
        worker_pct,
        $worker_cpu_bound_pct,
        worker_c,
        worker_pct / $worker_cpu_bound_pct
    FROM highest
    UNION ALL
    SELECT
        run,
        6,
        'sandbox-pool',
        CASE
            WHEN lease_saturation / $lease_bound < sandbox_util_pct / $sandbox_bound_pct THEN 'leases per sandbox'
            ELSE 'sandbox CPU, % of the pool'
        END,
        CASE
            WHEN lease_saturation / $lease_bound < sandbox_util_pct / $sandbox_bound_pct THEN lease_saturation
            ELSE sandbox_util_pct
        END,
        CASE
            WHEN lease_saturation / $lease_bound < sandbox_util_pct / $sandbox_bound_pct THEN $lease_bound
            ELSE $sandbox_bound_pct
        END,
        c,
        CASE
            WHEN lease_saturation IS NOT NULL AND sandbox_util_pct IS NOT NULL
                THEN least(lease_saturation / $lease_bound, sandbox_util_pct / $sandbox_bound_pct)
        END
    FROM at_knee
    UNION ALL
    SELECT
        run,
        7,
        'event-loop',
        CASE
            WHEN lag_discriminates THEN 'event-loop lag × that at c=1'
            ELSE 'event-loop lag × that at c=1, not shown to tell a starved worker from an idle one'
        END,
        at_knee.lag_p99_ms / nullif(first_rung.lag_p99_ms, 0),
        $lag_bound_x,
        at_knee.c,
        CASE WHEN lag_discriminates THEN at_knee.lag_p99_ms / nullif(first_rung.lag_p99_ms, 0) / $lag_bound_x END
    FROM at_knee
    JOIN first_rung USING (run)
    JOIN ladders USING (run)
    UNION ALL
    SELECT
        run,
        8,
        'memory',
        'memory of the largest worker, bytes',
        rss_bytes,
        rss_budget_bytes,
        c,
        rss_bytes / nullif(rss_budget_bytes, 0)
    FROM at_knee
    JOIN ladders USING (run)
)
SELECT
    *,
    coalesce(ratio >= 1, false) AS convicts
FROM rows_of_each
ORDER BY run, place
