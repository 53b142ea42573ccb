-- gate: refused_at_cap
-- asserts: No engine refused a target's start because it was at its cap of executions.
-- cause: driver; nothing was sent, so nothing is said about the mesh
-- items: target, cell
-- needs: target_states, cells
WITH refusing AS (
    SELECT run, target_no, count(*) AS engines FROM cells WHERE refusal GROUP BY run, target_no
),
told AS (
    SELECT
        target_states.*,
        coalesce(engines, 0) AS engines,
        'REFUSED AT THE EXECUTION CAP, nothing of this stage ran: ' || coalesce(error, 'no error given') AS said
    FROM target_states
    LEFT JOIN refusing USING (run, target_no)
)
-- the stage's own row says it where no engine is named as refusing
SELECT
    run,
    target_no,
    0 AS place,
    NULL AS node,
    'execution' AS item,
    judge(state, is_refused AND engines = 0) AS verdict,
    'driver' AS cause,
    said AS lead,
    NULL AS part,
    NULL AS tail
FROM told
UNION ALL
SELECT
    run, target_no, place, node, cell, judge(cells.state, refusal), 'driver', said || ' [refused by: ', node, ']'
FROM told
JOIN cells USING (run, target_no)
