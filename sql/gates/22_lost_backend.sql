-- gate: lost_backend
-- asserts: No backend is listed with an error, a refusal at the cap apart.
-- cause: driver; an engine is a part of the load, and where it is gone the mesh was not measured
-- items: cell
-- needs: cells
SELECT
    run,
    target_no,
    place,
    node,
    cell AS item,
    judge(state, lost) AS verdict,
    'driver' AS cause,
    'LOST BACKEND ' || engine_at(node, backend) || ' '
        || CASE WHEN returned THEN '[counters reported]' ELSE '[returned nothing]' END AS lead
FROM cells
