-- query: resources
-- asks: How many CPU cores and how much memory did engines, proxies, targets and the driver of each run use?
-- params: run=
-- rss_mib_all is the highest sum at one moment; a sum of each part's own highest would be of no moment at all.
-- A sum of which a part was not measured is NULL.
-- cpu_s grows per process. A process that was there at the part's first sample counts from that sample on; one that
-- came later (a roll) counts whole. The time is the part's, from its first sample to its last.
WITH
processes AS (
    SELECT
        run, kind, name, pid,
        min("at") AS first_at,
        max("at") AS last_at,
        arg_min(cpu_s, "at") AS cpu_first_s,
        max(cpu_s) AS cpu_last_s,
        max(rss_bytes) AS rss_bytes
    FROM resources
    WHERE $run IN ('', run)
    GROUP BY run, kind, name, pid
),
placed AS (SELECT *, min(first_at) OVER (PARTITION BY run, kind, name) AS part_first_at FROM processes),
parts AS (
    SELECT
        run, kind, name,
        CASE WHEN count(*) = count(cpu_last_s)
            THEN sum(cpu_last_s - CASE WHEN first_at = part_first_at THEN cpu_first_s ELSE 0 END) END
            / nullif(epoch(max(last_at) - min(part_first_at)), 0) AS cpu_cores,
        max(rss_bytes) AS rss_bytes
    FROM placed
    GROUP BY run, kind, name
),
looks AS (
    SELECT run, kind, "at", CASE WHEN count(*) = count(rss_bytes) THEN sum(rss_bytes) END AS rss_bytes
    FROM resources
    WHERE $run IN ('', run)
    GROUP BY run, kind, "at"
),
peaks AS (
    SELECT run, kind, CASE WHEN count(*) = count(rss_bytes) THEN max(rss_bytes) END AS rss_bytes
    FROM looks
    GROUP BY run, kind
)
SELECT
    run,
    kind,
    count(*) AS parts,
    round(CASE WHEN count(*) = count(cpu_cores) THEN sum(cpu_cores) END, 4) AS cpu_cores_all,
    round(max(cpu_cores), 4) AS cpu_cores_most,
    round(any_value(peaks.rss_bytes) / 1048576.0, 1) AS rss_mib_all,
    round(max(parts.rss_bytes) / 1048576.0, 1) AS rss_mib_most
FROM parts
JOIN peaks USING (run, kind)
GROUP BY run, kind
ORDER BY run DESC, kind
