-- gate: bad_counters
-- asserts: Every counter of every result is a whole number from 0 to 2^63, and a result counts no more outcomes than the
--          requests that its engine says it released.
-- cause: evidence; what cannot be a count cannot be graded
-- items: target
-- needs: cells
WITH bad AS (
    SELECT run, target_no, string_agg(node || ': ' || bad_counters, ', ' ORDER BY backend_no) AS told
    FROM cells
    WHERE returned AND bad_counters IS NOT NULL
    GROUP BY run, target_no
)
SELECT
    run,
    target_no,
    'counters' AS item,
    judge(state, told IS NOT NULL) AS verdict,
    'evidence' AS cause,
    'counters that cannot be counts (' || told || ')' AS lead
FROM target_states
LEFT JOIN bad USING (run, target_no)
