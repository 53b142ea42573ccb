-- table: knees
-- asks: Is there a knee, in which interval, or was none observed up to the top of the ladder?
-- floor_c is the highest healthy level. The interval reaches from the highest level that holds clearly to the lowest one
-- above the floor that misses clearly or is cut off for its failures. Where no level carries clearly more than c=1 does,
-- that is the knee. Without any such level all that is left is throughput: where it stopped rising at stopped_c, the knee
-- was passed, however latency reads. It lies above the level that the last rise began at, and not above stopped_c, or the
-- floor where that is higher; nor does a level above that one hold, where rising stopped at or below the floor. Where
-- throughput still rises at the top, no knee was observed.
WITH tops AS (
    SELECT run, max(c) AS top_c, min(c) FILTER (NOT succeeds AND NOT client_bound) AS cut_c FROM levels GROUP BY run
),
walked AS (
    SELECT run, max(floor_c) AS floor_c FROM walk GROUP BY run
),
flat AS (
    SELECT
        run,
        coalesce(
            max(throughput_tps) FILTER (c > 1) < $flat_gain * max(throughput_tps) FILTER (c = 1), false
        ) AS flat
    FROM levels
    WHERE in_ladder
    GROUP BY run
),
-- a level that carries no more than a peaked curve gains from half of its clients no longer rises
rises AS (
    SELECT
        levels.run,
        levels.c,
        max(half.c) AS half_c,
        coalesce(levels.throughput_tps >= $flat_gain * max(half.throughput_tps), true) AS rises
    FROM levels
    JOIN levels AS half ON half.run = levels.run AND half.in_ladder AND 2 * half.c <= levels.c
    WHERE levels.in_ladder
    GROUP BY levels.run, levels.c, levels.throughput_tps
),
-- from which level on none rises: one alone that does not may be an accident
last_rises AS (
    SELECT run, coalesce(max(c) FILTER (rises), 1) AS c, coalesce(max(half_c) FILTER (rises), 1) AS from_c
    FROM rises
    GROUP BY run
),
stops AS (
    SELECT run, last_rises.from_c AS rising_c, min(rises.c) AS stopped_c
    FROM rises
    JOIN last_rises USING (run)
    WHERE rises.c > last_rises.c
    GROUP BY run, last_rises.from_c
),
intervals AS (
    SELECT
        walked.run,
        walked.floor_c,
        any_value(stops.stopped_c) AS stopped_c,
        least(
            max(walk.c) FILTER (walk.c <= walked.floor_c AND walk.holds),
            any_value(stops.rising_c) FILTER (stops.stopped_c <= walked.floor_c)
        ) AS lo_c,
        least(any_value(stops.rising_c), walked.floor_c) AS rising_c,
        least(
            min(walk.c) FILTER (walk.c > walked.floor_c AND walk.misses_clearly),
            any_value(tops.cut_c)
        ) AS hi_c,
        any_value(tops.top_c) AS top_c
    FROM walked
    JOIN walk USING (run)
    JOIN tops USING (run)
    LEFT JOIN stops USING (run)
    GROUP BY walked.run, walked.floor_c
),
answers AS (
    SELECT
        *,
        CASE
            WHEN flat THEN 'flat'
            WHEN hi_c IS NOT NULL THEN 'missed'
            WHEN stopped_c IS NOT NULL THEN 'stopped'
            ELSE 'not-observed'
        END AS how
    FROM intervals
    JOIN flat USING (run)
)
SELECT
    run,
    CASE how WHEN 'not-observed' THEN how ELSE 'knee' END AS answer,
    CASE how WHEN 'flat' THEN 1 ELSE floor_c END AS floor_c,
    CASE how WHEN 'flat' THEN 1 WHEN 'missed' THEN lo_c WHEN 'stopped' THEN rising_c ELSE floor_c END AS lo_c,
    CASE how WHEN 'flat' THEN 1 WHEN 'missed' THEN hi_c WHEN 'stopped' THEN greatest(floor_c, stopped_c) END AS hi_c,
    CASE how WHEN 'stopped' THEN stopped_c END AS stopped_c,
    top_c
FROM answers
