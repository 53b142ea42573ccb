-- gate: off_plan
-- asserts: Every survivor's own execution time is within 5 % of the duration, either way.
-- cause: driver; the engine was frozen, starved or cut short
-- items: cell
-- needs: cells
SELECT
    run,
    target_no,
    place,
    node,
    cell AS item,
    judge(
        state,
        survivor AND (
            elapsed_ms IS NULL
            OR abs(elapsed_ms - coalesce(duration_ms, 0)) > coalesce(duration_ms, 0)::DOUBLE * 5 / 100
        )
    ) AS verdict,
    'driver' AS cause,
    'ran off plan (' || brief(duration_ms / 1000) || 's) on [' AS lead,
    node || '=' || coalesce(printf('%.2f', elapsed_ms / 1000), '?') || 's' AS part,
    ']' AS tail
FROM cells
