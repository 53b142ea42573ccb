-- table: knees
-- asks: Is there a knee, in which interval, or was none observed up to the top of the ladder?
-- floor_c is the highest healthy level. The interval reaches from the highest level that holds clearly to the lowest one
-- above the floor that misses clearly or is cut off for its failures. Without any such level a miss is within noise, and no
-- knee was observed. Where no level carries clearly more than c=1 does, that is the knee.
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
intervals AS (
    SELECT
        walked.run,
        walked.floor_c,
        max(walk.c) FILTER (walk.c <= walked.floor_c AND walk.holds) AS lo_c,
        least(
            min(walk.c) FILTER (walk.c > walked.floor_c AND walk.misses_clearly),
            any_value(tops.cut_c)
        ) AS hi_c,
        any_value(tops.top_c) AS top_c
    FROM walked
    JOIN walk USING (run)
    JOIN tops USING (run)
    GROUP BY walked.run, walked.floor_c
)
SELECT
    run,
    CASE WHEN flat OR (hi_c IS NOT NULL AND floor_c < top_c) THEN 'knee' ELSE 'not-observed' END AS answer,
    CASE WHEN flat THEN 1 ELSE floor_c END AS floor_c,
    CASE WHEN flat THEN 1 WHEN hi_c IS NULL OR floor_c = top_c THEN floor_c ELSE lo_c END AS lo_c,
    CASE WHEN flat THEN 1 WHEN floor_c < top_c THEN hi_c END AS hi_c,
    top_c
FROM intervals
JOIN flat USING (run)
