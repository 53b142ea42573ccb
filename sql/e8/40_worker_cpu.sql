-- table: worker_cpu
-- asks: What does one more turn cost the workers, and what do they use in any second without one?
-- Least squares of the workers' CPU time over turns and wall time. At low concurrency the plain ratio is mostly the
-- second part, so that both are told. Neither can be below 0: without a second part, what is left is of the turns; and
-- where more turns went with less CPU, the two cannot be told apart, and both are NULL.
WITH sums AS (
    SELECT
        run,
        count(DISTINCT c) AS levels,
        sum(ok * ok) AS tt,
        sum(wall_ms * wall_ms) / 1e6 AS ww,
        sum(ok * wall_ms) / 1e3 AS tw,
        sum(ok * worker_cpu_s) AS ty,
        sum(wall_ms * worker_cpu_s) / 1e3 AS wy
    FROM rungs
    WHERE worker_cpu_s IS NOT NULL AND wall_ms IS NOT NULL AND ok > 0
    GROUP BY run
),
fitted AS (
    SELECT
        run,
        ty / tt AS turns_alone,
        (ty * ww - wy * tw) / nullif(tt * ww - tw * tw, 0) AS per_turn,
        (wy * tt - ty * tw) / nullif(tt * ww - tw * tw, 0) AS per_second
    FROM sums
    WHERE levels >= 3
)
SELECT
    run,
    1000 * CASE WHEN per_second < 0 THEN turns_alone ELSE per_turn END AS marginal_ms_per_turn,
    1000 * greatest(per_second, 0) AS background_ms_per_s
FROM fitted
WHERE per_turn >= 0
