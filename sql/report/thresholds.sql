-- query: thresholds
-- asks: Which limits did the plan set, and what was seen?
SELECT executions.label, thresholds.expr, thresholds.passed, thresholds.actual
FROM thresholds
JOIN executions ON executions.exec_no = thresholds.exec_no
ORDER BY executions.exec_no, thresholds.threshold_no
