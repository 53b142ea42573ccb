-- query: resources
-- asks: How many CPU cores and how much memory did each part use?
-- cpu_s grows per process. A process that was there at the part's first sample counts from that sample on; one that
-- came later (a roll) counts whole. The time is the part's, from its first sample to its last.
WITH
processes AS (
    SELECT
        name, pid,
        any_value(kind) AS kind,
        any_value(node) AS node,
        min("at") AS first_at,
        max("at") AS last_at,
        arg_min(cpu_s, "at") AS cpu_first_s,
        max(cpu_s) AS cpu_last_s,
        avg(rss_bytes) AS rss_mean_bytes,
        max(rss_bytes) AS rss_max_bytes
    FROM resources
    GROUP BY name, pid
),
placed AS (SELECT *, min(first_at) OVER (PARTITION BY name) AS part_first_at FROM processes)
SELECT
    name,
    any_value(kind) AS kind,
    any_value(node) AS node,
    count(*) AS processes,
    sum(cpu_last_s - CASE WHEN first_at = part_first_at THEN cpu_first_s ELSE 0 END)
        / nullif(epoch(max(last_at) - min(part_first_at)), 0) AS cpu_cores,
    avg(rss_mean_bytes) AS rss_mean_bytes,
    CAST(max(rss_max_bytes) AS BIGINT) AS rss_max_bytes
FROM placed
GROUP BY name
ORDER BY
    coalesce(list_position(['engine', 'proxy', 'driver', 'target'], any_value(kind)), 9), any_value(kind), name
