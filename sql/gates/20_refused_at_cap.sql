-- gate: refused_at_cap
-- asserts: No engine refused a target's start because it was at its cap of executions.
-- cause: driver; nothing was sent, so nothing is said about the mesh
-- items: target, cell
-- needs: target_states, cells
WITH refusing AS (
    SELECT target_no, count(*) AS engines FROM cells WHERE refusal GROUP BY target_no
),
told AS (
    SELECT
        target_states.*,
        coalesce(engines, 0) AS engines,
        'REFUSED AT THE EXECUTION CAP, nothing of this stage ran: ' || coalesce(error, 'no error given') AS said
    FROM target_states
    LEFT JOIN refusing USING (target_no)
),
-- the stage's own row says it where no engine is named as refusing
items AS (
    SELECT
        target_no,
        0 AS place,
        NULL AS node,
        'execution' AS item,
        judge(state, is_refused AND engines = 0) AS verdict,
        said AS lead,
        NULL AS tail
    FROM told
    UNION ALL
    SELECT target_no, backend_no, node, cell, judge(cells.state, refusal), said || ' [refused by: ', ']'
    FROM told
    JOIN cells USING (target_no)
)
SELECT target_no, node, item, verdict, 'driver' AS cause, lead, node AS part, tail
FROM items
ORDER BY target_no, place
