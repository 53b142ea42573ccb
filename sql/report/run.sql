-- query: run
-- asks: What is this run, and who measured it?
-- Latencies start at another moment with each of those. NULL: no engine returned anything.
SELECT
    runs.*,
    (SELECT sum(rate_rps) FROM plan_targets) AS rate_rps_per_node,
    (SELECT min(started_at) FROM executions) AS started_at,
    (SELECT max(ended_at) FROM executions) AS ended_at,
    CASE
        WHEN NOT EXISTS (FROM cells WHERE returned) THEN NULL
        WHEN (SELECT bool_or(own_engine) FROM target_summary) THEN 'this harness'
        WHEN source IN ('nighthawk', 'k6') THEN source
        ELSE 'sortie'
    END AS measured_by
FROM runs
