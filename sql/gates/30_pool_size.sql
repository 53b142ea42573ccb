-- gate: pool_size
-- asserts: Every target was dispatched to exactly N different backends, and to every node of a whole engine list.
-- cause: plan; what ran is not the plan of N nodes
-- items: target
-- needs: target_states, cells, runs
WITH absent AS (
    SELECT run, target_no, string_agg(node, ' ' ORDER BY node_no) AS nodes
    FROM cells
    WHERE planned AND NOT dispatched
    GROUP BY run, target_no
)
SELECT
    run,
    target_no,
    'dispatch list' AS item,
    judge(
        state,
        dispatched <> backends
            OR dispatched_distinct <> backends
            OR (nodes_listed = backends AND absent.nodes IS NOT NULL)
    ) AS verdict,
    dispatched AS count,
    'plan' AS cause,
    'backends ' || dispatched || '/' || backends || coalesce(' (not dispatched: ' || absent.nodes || ')', '')
        || CASE
            WHEN nodes_listed NOT IN (0, backends)
                THEN ' (engines.tsv lists ' || nodes_listed || ', run.env says BACKENDS=' || backends || ')'
            ELSE ''
        END AS lead
FROM target_states
JOIN runs USING (run)
LEFT JOIN absent USING (run, target_no)
