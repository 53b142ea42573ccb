-- query: failures
-- asks: Which counters of the zero-failure set moved, on which node, for which target?
-- Classes overlap (one reset is in three counters), so they are listed and never added up.
SELECT plan_targets.target, counters.node, metric(counters.counter) AS class, counters.value
FROM counters
JOIN executions USING (run, exec_no)
JOIN plan_targets USING (run, label)
WHERE is_failure(counters.counter) AND counters.value > 0
ORDER BY plan_targets.target_no, counters.node, class
