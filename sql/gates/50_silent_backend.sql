-- gate: silent_backend
-- asserts: Every backend that was dispatched has a result, or something says why not.
-- cause: evidence; the report is cut off, or its producer does not list what it lost
-- items: cell
-- needs: cells
SELECT
    run,
    target_no,
    place,
    node,
    cell AS item,
    judge(state, dispatched AND NOT returned AND NOT lost AND execution_error IS NULL AND NOT is_refused) AS verdict,
    'evidence' AS cause,
    engine_at(node, backend) || ' returned nothing, and is not listed as lost' AS lead
FROM cells
