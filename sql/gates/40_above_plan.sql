-- gate: above_plan
-- asserts: No survivor has more than (200 - P) % of its share × duration as 2xx, nor as answers that no failure counter
--          holds (1xx, 2xx, 3xx, other); where 2xx are not counted, it did not send more than that.
-- cause: plan; more load than planned is another plan's run
-- items: cell
-- needs: cells
WITH counted AS (
    SELECT
        *,
        planned_2xx * (200 - floor_pct) / 100 AS ceiling,
        CASE
            WHEN http_2xx IS NULL AND bad_counters IS NULL THEN sent
            WHEN http_2xx IS NOT NULL THEN greatest(http_2xx, answers)
        END AS at_most
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
        WHEN at_most::DOUBLE > ceiling THEN 'FAIL'
        WHEN at_most::DOUBLE <= ceiling THEN 'PASS'
    END AS verdict,
    at_most AS count,
    'plan' AS cause,
    CASE WHEN http_2xx IS NULL THEN 'requests' WHEN at_most > http_2xx THEN 'answers' ELSE 'http_2xx' END || ' above ' || (200 - floor_pct)
        || '% of the planned ' || brief(round(planned_2xx)) || ' on [' AS lead,
    node || '=' || at_most AS part,
    '] (more than this plan sends)' AS tail
FROM counted
