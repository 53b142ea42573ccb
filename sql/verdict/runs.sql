-- asks: What is said of each run as a whole, and how many executions are marked as never attempted?
SELECT runs.*, count(exec_no) FILTER (not_run) AS marked_not_run
FROM runs
LEFT JOIN executions USING (run)
GROUP BY ALL
