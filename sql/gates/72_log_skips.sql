-- gate: log_skips
-- asserts: The driver's log, where there is one, says of nothing that it was skipped or not run.
-- cause: driver; it says so itself
-- items: run
-- needs: runs
SELECT
    run,
    'log' AS item,
    CASE
        WHEN log_skip_lines > 0 OR log_not_run > 0 THEN 'FAIL'
        WHEN log_skip_lines = 0 AND coalesce(log_not_run, 0) = 0 THEN 'PASS'
    END AS verdict,
    coalesce(log_not_run, 0) AS count,
    'driver' AS cause,
    'sortie.log' AS subject,
    'the driver''s log holds ' || log_skip_lines || ' SKIP line(s)' || coalesce(', summary "' || log_summary || '"', '')
        || '. Something that was planned was never attempted, whatever the report says' AS lead
FROM runs
