-- about: One row per execution, with what its entries add up to: refused at the cap, how many lost, how many returned.
--        refused: by the field; only where an execution has no such key, by the words an older driver wrote.
WITH entries AS (
    SELECT
        run,
        exec_no,
        count(*) FILTER (returned) AS results,
        count(*) FILTER (in_error) AS errors,
        count(*) FILTER (in_error AND error_refused = 'execution_cap') AS marked,
        count(*) FILTER (dispatched) AS dispatched,
        count(DISTINCT backend) FILTER (dispatched) AS dispatched_distinct
    FROM backends
    GROUP BY run, exec_no
),
told AS (
    SELECT
        *,
        NOT has_refused_key
            AND coalesce(contains(error, 'refused a start because the engine is at'), false) AS refused_by_words
    FROM executions
)
SELECT
    told.* EXCLUDE (refused),
    refused IS NOT DISTINCT FROM 'execution_cap' OR refused_by_words OR coalesce(marked, 0) > 0 AS is_refused,
    CASE WHEN refused_by_words THEN 0 ELSE coalesce(errors - marked, 0) END AS lost,
    coalesce(results, 0) AS results,
    coalesce(dispatched, 0) AS dispatched,
    coalesce(dispatched_distinct, 0) AS dispatched_distinct
FROM told
LEFT JOIN entries USING (run, exec_no)
