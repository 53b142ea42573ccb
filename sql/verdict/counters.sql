-- asks: Which counters moved, on which backend, and does a rule judge them? What is answered neither by 2xx nor by a
--       failure (1xx, 3xx, xxx), and a counter that nobody knows, is judged by none and shown.
SELECT
    run,
    exec_no,
    backend_no,
    metric(counter) AS name,
    is_failure(counter) AS judged,
    value
FROM counters
WHERE value > 0 AND NOT is_envoy(counter) AND counter NOT IN (
    'benchmark.http_2xx', 'k6.http_reqs',
    'sequencer.failed_terminations', 'graceful_stop_requested' -- nighthawk ended early: the backend is lost by them
)
ORDER BY run, exec_no, backend_no, name
