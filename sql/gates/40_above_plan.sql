-- gate: above_plan
-- asserts: No survivor has more than (200 - P) % of its share × duration as 2xx.
-- cause: plan; more load than planned is another plan's run
-- items: cell
-- needs: cells, runs
SELECT
    target_no,
    node,
    cell AS item,
    CASE
        WHEN state <> 'graded' OR NOT survivor OR http_2xx IS NULL THEN 'SKIP'
        WHEN http_2xx::DOUBLE > planned_2xx * (200 - floor_pct) / 100 THEN 'FAIL'
        WHEN http_2xx::DOUBLE <= planned_2xx * (200 - floor_pct) / 100 THEN 'PASS'
    END AS verdict,
    http_2xx AS count,
    'plan' AS cause,
    'http_2xx above ' || (200 - floor_pct) || '% of the planned ' || brief(round(planned_2xx)) || ' on [' AS lead,
    node || '=' || http_2xx AS part,
    '] (more than this plan sends)' AS tail
FROM cells
JOIN runs USING (run)
ORDER BY target_no, backend_no
