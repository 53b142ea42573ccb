-- asks: What is printed beside each target's verdict?
SELECT target_summary.*, contradiction
FROM target_summary
JOIN target_states USING (run, target_no)
ORDER BY run, target_no
