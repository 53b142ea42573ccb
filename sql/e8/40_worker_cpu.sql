-- table: worker_cpu
-- asks: What does one more turn cost the workers, what do they use in any second without one, and how sure is that?
-- Least squares of the workers' CPU time over turns and wall time. At low concurrency the plain ratio is mostly the
-- second part, so that both are told. Neither can be below 0: without a second part, what is left is of the turns; and
-- where more turns went with less CPU, the two cannot be told apart, and both are NULL.
-- lo and hi: the least and the most that a further turn costs, each level in turn left out. fits: no level's CPU time is
-- missed by more than cpu_fit_pct, and being there costs no more than c=1 used in all; worst_c is missed by most.
WITH by_level AS (
    SELECT
        run,
        c,
        sum(ok * ok) AS tt,
        sum(wall_ms * wall_ms) / 1e6 AS ww,
        sum(ok * wall_ms) / 1e3 AS tw,
        sum(ok * worker_cpu_s) AS ty,
        sum(wall_ms * worker_cpu_s) / 1e3 AS wy,
        sum(ok) AS turns,
        sum(wall_ms) / 1e3 AS wall_s,
        sum(worker_cpu_s) AS cpu_s
    FROM rungs
    WHERE worker_cpu_s IS NOT NULL AND wall_ms IS NOT NULL AND ok > 0
    GROUP BY run, c
),
without AS (SELECT run, NULL AS out_c FROM by_level UNION SELECT run, c FROM by_level),
sums AS (
    SELECT
        by_level.run,
        out_c,
        count(*) AS levels,
        sum(tt) AS tt,
        sum(ww) AS ww,
        sum(tw) AS tw,
        sum(ty) AS ty,
        sum(wy) AS wy
    FROM by_level
    JOIN without ON without.run = by_level.run AND out_c IS DISTINCT FROM c
    GROUP BY by_level.run, out_c
),
solved AS (
    SELECT
        run,
        out_c,
        levels,
        ty / tt AS turns_alone,
        (ty * ww - wy * tw) / nullif(tt * ww - tw * tw, 0) AS per_turn,
        (wy * tt - ty * tw) / nullif(tt * ww - tw * tw, 0) AS per_second
    FROM sums
),
costs AS (
    SELECT
        run,
        out_c,
        CASE WHEN per_second < 0 THEN turns_alone ELSE greatest(per_turn, 0) END AS per_turn,
        greatest(per_second, 0) AS per_second,
        per_turn >= 0 AND levels >= 3 AS is_told
    FROM solved
),
spread AS (
    SELECT run, min(per_turn) AS lo, max(per_turn) AS hi FROM costs GROUP BY run
),
missed AS (
    SELECT
        run,
        max(100 * abs(turns * per_turn + wall_s * per_second - cpu_s) / nullif(cpu_s, 0)) AS worst_pct,
        arg_max(c, abs(turns * per_turn + wall_s * per_second - cpu_s) / nullif(cpu_s, 0)) AS worst_c,
        coalesce(bool_and(per_second <= cpu_s / wall_s) FILTER (c = 1), true) AS is_there_at_first,
        bool_or(cpu_s = 0) AS is_idle
    FROM by_level
    JOIN costs USING (run)
    WHERE out_c IS NULL
    GROUP BY run
)
SELECT
    run,
    1000 * per_turn AS marginal_ms_per_turn,
    1000 * per_second AS background_ms_per_s,
    1000 * lo AS lo_ms_per_turn,
    1000 * hi AS hi_ms_per_turn,
    worst_c,
    worst_pct,
    coalesce(worst_pct <= $cpu_fit_pct AND is_there_at_first AND NOT is_idle, false) AS fits
FROM costs
JOIN spread USING (run)
JOIN missed USING (run)
WHERE out_c IS NULL AND is_told
