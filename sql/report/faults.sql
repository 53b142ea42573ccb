-- query: faults
-- asks: Which faults were put into the run on purpose?
-- Their log has moments and no offsets; the load starts when the engines do, else at the earliest dispatch.
WITH load AS (
    SELECT coalesce((SELECT min(started_at) FROM backends), (SELECT min(started_at) FROM executions)) AS start_at
)
SELECT
    coalesce(events.at_s, round(epoch(events."at" - load.start_at), 1)) AS at_s,
    events.outcome,
    events.kind,
    events.name,
    events.detail
FROM events
CROSS JOIN load
WHERE events.source = 'faults'
ORDER BY events.event_no
