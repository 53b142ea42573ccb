-- query: resources
-- asks: How many CPU cores and how much memory did each part use?
-- cpu_s grows per process; a part that was restarted is several processes, and each counts from its first sample.
WITH
processes AS (
    SELECT
        name, any_value(kind) AS kind, any_value(node) AS node, pid,
        max(cpu_s) - min(cpu_s) AS cpu_s,
        count(cpu_s) AS samples,
        min("at") AS first_at, max("at") AS last_at
    FROM resources
    GROUP BY name, pid
),
memory AS (SELECT name, avg(rss_bytes) AS rss_mean_bytes, max(rss_bytes) AS rss_max_bytes FROM resources GROUP BY name)
SELECT
    processes.name,
    any_value(processes.kind) AS kind,
    any_value(processes.node) AS node,
    count(*) AS processes,
    CASE
        WHEN sum(epoch(processes.last_at - processes.first_at)) > 0
            THEN sum(processes.cpu_s) FILTER (processes.samples > 1)
                / sum(epoch(processes.last_at - processes.first_at)) FILTER (processes.samples > 1)
    END AS cpu_cores,
    any_value(memory.rss_mean_bytes) AS rss_mean_bytes,
    CAST(any_value(memory.rss_max_bytes) AS BIGINT) AS rss_max_bytes
FROM processes
JOIN memory ON memory.name = processes.name
GROUP BY processes.name
ORDER BY kind, node, processes.name
