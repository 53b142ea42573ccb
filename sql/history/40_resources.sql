-- query: resources
-- asks: How many CPU cores and how much memory did engines, proxies, targets and the driver of each run use?
-- params: run=
-- cpu_s grows per process, so each process counts from its first sample to its last.
WITH
processes AS (
    SELECT
        run, kind, name, pid,
        max(cpu_s) - min(cpu_s) AS cpu_s,
        epoch(max("at") - min("at")) AS wall_s,
        max(rss_bytes) AS rss_bytes
    FROM resources
    WHERE $run IN ('', run)
    GROUP BY run, kind, name, pid
),
parts AS (
    SELECT
        run, kind, name,
        sum(cpu_s) / nullif(sum(wall_s), 0) AS cpu_cores,
        max(rss_bytes) AS rss_bytes
    FROM processes
    GROUP BY run, kind, name
)
SELECT
    run,
    kind,
    count(*) AS parts,
    round(sum(cpu_cores), 4) AS cpu_cores_all,
    round(max(cpu_cores), 4) AS cpu_cores_most,
    round(sum(rss_bytes) / 1048576.0, 1) AS rss_mib_all,
    round(max(rss_bytes) / 1048576.0, 1) AS rss_mib_most
FROM parts
GROUP BY run, kind
ORDER BY run DESC, kind
