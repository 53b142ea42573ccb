-- asks: When was the load, by the driver's clock, and when did the engines start, by theirs?
SELECT
    run,
    stamp(min(executions.started_at)) AS dispatched,
    stamp(max(executions.ended_at)) AS ended,
    stamp(min(backends.started_at)) AS engines_started_first,
    stamp(max(backends.started_at)) AS engines_started_last
FROM executions
LEFT JOIN backends USING (run, exec_no)
GROUP BY run
