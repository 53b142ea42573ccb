-- asks: Which addresses were lost, on how many targets, and what was the first error given for each?
SELECT run, node, backend, count(*) AS targets, first(coalesce(error, 'no error given') ORDER BY exec_no) AS error
FROM (
    SELECT run, node, backend, exec_no, first(error ORDER BY backend_no) AS error
    FROM backend_states
    WHERE lost
    GROUP BY run, node, backend, exec_no
)
GROUP BY run, node, backend
ORDER BY run, backend
