-- gate: below_plan
-- asserts: Every survivor has at least P % of its share × duration as 2xx; a plan of nothing is under any floor.
-- cause: driver where fewer requests than the floor were sent at all; else mesh, they did not come back as 2xx. Mesh
--        too where the rest was not sent because requests that the mesh had not answered held every connection
-- items: cell
-- needs: cells, runs
SELECT
    target_no,
    node,
    cell AS item,
    CASE
        WHEN state <> 'graded' OR NOT survivor OR http_2xx IS NULL THEN 'SKIP'
        WHEN planned_2xx <= 0 OR http_2xx::DOUBLE < planned_2xx * floor_pct / 100 THEN 'FAIL'
        WHEN http_2xx::DOUBLE >= planned_2xx * floor_pct / 100 THEN 'PASS'
    END AS verdict,
    http_2xx AS count,
    CASE WHEN sent::DOUBLE < planned_2xx * floor_pct / 100 AND NOT held THEN 'driver' ELSE 'mesh' END AS cause,
    'http_2xx below ' || floor_pct || '% of the planned ' || brief(round(planned_2xx)) || ' on [' AS lead,
    node || '=' || http_2xx AS part,
    CASE
        WHEN sent::DOUBLE >= planned_2xx * floor_pct / 100 THEN ']'
        WHEN held THEN '] (the rest was not sent: unanswered requests held every connection)'
        ELSE '] (the engine did not send the rest)'
    END AS tail
FROM cells
JOIN runs USING (run)
ORDER BY target_no, backend_no
