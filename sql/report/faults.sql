-- query: faults
-- asks: Which faults were put into the run on purpose?
-- Their log has moments and no offsets. The load starts when the engines say so; where none returned, the driver's
-- progress dates it, else the earliest dispatch.
WITH load AS (
    SELECT coalesce(
        (SELECT min(started_at) FROM backends),
        (SELECT min("at" - to_milliseconds(1000 * elapsed_s)) FROM progress),
        (SELECT min(started_at) FROM executions)
    ) AS start_at
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
