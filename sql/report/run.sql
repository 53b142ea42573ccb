-- query: run
-- asks: What is this run?
SELECT
    runs.*,
    (SELECT sum(rate_rps) FROM plan_targets) AS rate_rps_per_node,
    (SELECT min(started_at) FROM executions) AS started_at,
    (SELECT max(ended_at) FROM executions) AS ended_at
FROM runs
