-- query: faults
-- asks: Which faults were put into the run on purpose?
-- Their log has moments and no offsets; the load's start is the earliest dispatch.
SELECT
    coalesce(events.at_s, round(epoch(events."at" - (SELECT min(started_at) FROM executions)), 1)) AS at_s,
    events.outcome,
    events.kind,
    events.name,
    events.detail
FROM events
WHERE events.source = 'faults'
ORDER BY events.event_no
