-- query: latency
-- asks: Every duration that the engines measured in a run, per target and node: how is each distributed?
-- params: run statistic=
-- A statistic, a counter or a threshold names an execution by its number; the execution's label names the target.
SELECT
    plan_targets.target,
    statistics.node,
    statistics.statistic,
    statistics.count,
    round(statistics.mean / 1e6, 3) AS mean_ms,
    round(statistics.p50 / 1e6, 3) AS p50_ms,
    round(statistics.p90 / 1e6, 3) AS p90_ms,
    round(statistics.p99 / 1e6, 3) AS p99_ms,
    round(statistics.p99_9 / 1e6, 3) AS p99_9_ms,
    round(statistics.max / 1e6, 3) AS max_ms
FROM statistics
JOIN executions USING (run, exec_no)
JOIN plan_targets USING (run, label)
WHERE run = $run AND statistics.unit = 'ns' AND ($statistic = '' OR contains(statistics.statistic, $statistic))
ORDER BY target_no, statistics.node, statistics.statistic
