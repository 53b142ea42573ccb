-- table: walk
-- asks: Going up the ladder from c=1, which level is healthy, and how surely?
-- Healthy: p95 within its bound, and a throughput no lower than at any healthy level below. A single miss may be an
-- accident and is stepped over; the second in a row ends the climb, and no level above it is healthy any more. A level
-- that ended by its deadline is a clear miss, whatever the turns took that it came to. A level holds or misses clearly
-- when more than noise says so. For holding, the throughput must also still be on its way up, else it may have peaked
-- below: it rises again to the next level, or it rose to this one in proportion to the concurrency.
WITH RECURSIVE
bounds AS (
    SELECT run, p95_ms * coalesce(degrade_x, $degrade_x) AS p95_bound_ms
    FROM levels
    JOIN ladders USING (run)
    WHERE c = 1
),
walk AS (
    SELECT
        run,
        place,
        c,
        p95_bound_ms,
        true AS healthy,
        true AS holds,
        false AS misses_clearly,
        c AS floor_c,
        throughput_tps AS best_tps,
        0 AS misses
    FROM levels
    JOIN bounds USING (run)
    WHERE c = 1 AND in_ladder AND NOT late
    UNION ALL
    SELECT
        run,
        place,
        c,
        p95_bound_ms,
        healthy,
        healthy AND coalesce(
            p95_ms <= p95_bound_ms * (1 - $noise_pct / 100)
            AND (
                next_throughput_tps >= throughput_tps * (1 + $noise_pct / 100)
                OR throughput_tps >= best_tps * c / floor_c * (1 - $noise_pct / 100)
            ),
            false
        ) AS holds,
        coalesce(
            late OR p95_ms > p95_bound_ms * (1 + $noise_pct / 100) OR throughput_tps < best_tps * (1 - $noise_pct / 100),
            false
        ) AS misses_clearly,
        CASE WHEN healthy THEN c ELSE floor_c END AS floor_c,
        CASE WHEN healthy THEN throughput_tps ELSE best_tps END AS best_tps,
        CASE WHEN healthy THEN 0 ELSE misses + 1 END AS misses
    FROM (
        SELECT
            levels.run,
            levels.place,
            levels.c,
            levels.late,
            levels.p95_ms,
            levels.throughput_tps,
            levels.next_throughput_tps,
            walk.p95_bound_ms,
            walk.floor_c,
            walk.best_tps,
            walk.misses,
            walk.misses < $misses
            AND NOT levels.late
            AND coalesce(levels.p95_ms <= walk.p95_bound_ms AND levels.throughput_tps >= walk.best_tps, false)
                AS healthy
        FROM walk
        JOIN levels ON levels.run = walk.run AND levels.place = walk.place + 1 AND levels.in_ladder
    )
)
SELECT * FROM walk
