-- gate: undispatched_backend
-- asserts: Every result is of a backend that was dispatched, and each backend has one.
-- cause: evidence; a result from elsewhere belongs to another run
-- items: cell
-- needs: cells
SELECT
    run,
    target_no,
    place,
    node,
    cell AS item,
    judge(state, returned AND NOT dispatched) AS verdict,
    'evidence' AS cause,
    engine_at(node, backend) || ' returned a result and was not dispatched' AS lead
FROM cells
