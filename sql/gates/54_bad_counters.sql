-- gate: bad_counters
-- asserts: Every counter of every result is a whole number from 0 to 2^63.
-- cause: evidence; what is no count cannot be graded
-- items: target
-- needs: cells
WITH bad AS (
    SELECT target_no, string_agg(node || ': ' || bad_counters, ', ' ORDER BY backend_no) AS told
    FROM cells
    WHERE returned AND bad_counters IS NOT NULL
    GROUP BY target_no
)
SELECT
    target_no,
    'counters' AS item,
    judge(state, told IS NOT NULL) AS verdict,
    'evidence' AS cause,
    'counters that are no counts (' || told || ')' AS lead
FROM target_states
LEFT JOIN bad USING (target_no)
