-- query: targets
-- asks: For each run and target, how many answers of planned ones, and which node was the worst, with what latency?
-- params: run=
-- The worst node is the one with the highest p99. NULL is not measured. sent is of the engines that returned.
WITH
worst AS (
    SELECT run, target_no, first(node ORDER BY p99_ns DESC, place) AS worst_node
    FROM cells
    WHERE p99_ns IS NOT NULL
    GROUP BY run, target_no
)
SELECT
    target_summary.run,
    target_summary.target,
    target_summary.sent,
    target_summary.http_2xx,
    target_summary.planned,
    worst.worst_node,
    round(target_summary.p50_ns / 1e6, 3) AS worst_p50_ms,
    round(target_summary.p99_ns / 1e6, 3) AS worst_p99_ms,
    round(target_summary.max_ns / 1e6, 3) AS worst_max_ms,
    round(target_summary.send_delay_p99_ns / 1e6, 3) AS worst_send_delay_p99_ms
FROM target_summary
LEFT JOIN worst USING (run, target_no)
WHERE $run IN ('', target_summary.run)
ORDER BY target_summary.run DESC, target_summary.target_no
