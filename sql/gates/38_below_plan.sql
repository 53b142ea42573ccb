-- gate: below_plan
-- asserts: Every survivor has at least P % of its share × duration as 2xx; a plan of nothing is under any floor. Where
--          2xx are not counted, all that was sent must at least reach it.
-- cause: driver where fewer requests than the floor were sent at all; else mesh, they did not come back as 2xx. Mesh
--        too where the rest was not sent because requests that the mesh had not answered held every connection
-- items: cell
-- needs: cells
WITH counted AS (
    SELECT
        *,
        planned_2xx * floor_pct / 100 AS floor,
        CASE WHEN bad_counters IS NULL THEN coalesce(http_2xx, sent) ELSE http_2xx END AS at_most
    FROM cells
)
SELECT
    run,
    target_no,
    place,
    node,
    cell AS item,
    CASE
        WHEN state <> 'graded' OR NOT survivor OR at_most IS NULL THEN 'SKIP'
        WHEN planned_2xx <= 0 OR at_most::DOUBLE < floor THEN 'FAIL'
        WHEN http_2xx::DOUBLE >= floor THEN 'PASS'
        WHEN http_2xx IS NULL AND floor IS NOT NULL THEN 'UNMEASURED'
    END AS verdict,
    at_most AS count,
    CASE WHEN sent::DOUBLE < floor AND NOT held THEN 'driver' ELSE 'mesh' END AS cause,
    'http_2xx below ' || floor_pct || '% of the planned ' || brief(round(planned_2xx)) || ' on [' AS lead,
    node || CASE WHEN http_2xx IS NULL THEN '<=' ELSE '=' END || at_most AS part,
    CASE
        WHEN sent::DOUBLE >= floor THEN ']'
        WHEN held THEN '] (the rest was not sent: unanswered requests held every connection)'
        ELSE '] (the engine did not send the rest)'
    END AS tail
FROM counted
