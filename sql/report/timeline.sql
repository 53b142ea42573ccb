-- query: timeline
-- asks: Over the load, how slow was the slowest target on one node, and how many 2xx per second did all nodes get?
-- params: node=
-- The driver writes one row per backend and target at each look, within one second; counts are cumulative. A rate is
-- shown only where both looks saw the same backends: a silent one is a gap and not a slower fleet. Without a node, the
-- one that showed the highest p99 is taken.
WITH
looks AS (
    SELECT
        round(elapsed_s) AS at_s, node, backend, label,
        max(http_2xx) AS http_2xx, max(p99_ns) AS p99_ns, max(max_ns) AS max_ns
    FROM progress
    WHERE elapsed_s IS NOT NULL
    GROUP BY ALL
),
chosen AS (SELECT coalesce(nullif($node, ''), (SELECT arg_max(node, p99_ns) FROM looks)) AS node),
slowest AS (
    SELECT
        at_s, any_value(node) AS node,
        arg_max(regexp_replace(label, '^[^/]*/', ''), p99_ns) AS target, max(p99_ns) AS p99_ns, max(max_ns) AS max_ns
    FROM looks
    JOIN chosen USING (node)
    GROUP BY at_s
),
sums AS (SELECT at_s, sum(http_2xx) AS http_2xx, count(http_2xx) AS parts FROM looks GROUP BY at_s),
steps AS (
    SELECT
        at_s,
        http_2xx - lag(http_2xx, 1, 0) OVER (ORDER BY at_s) AS answers,
        at_s - lag(at_s, 1, 0) OVER (ORDER BY at_s) AS interval_s,
        parts = lag(parts, 1, parts) OVER (ORDER BY at_s) AS comparable
    FROM sums
)
SELECT
    steps.at_s,
    (SELECT node FROM chosen) AS node,
    slowest.target,
    slowest.p99_ns,
    slowest.max_ns,
    CASE WHEN steps.comparable AND steps.interval_s > 0 AND steps.answers >= 0 THEN steps.answers / steps.interval_s END
        AS rate_2xx_rps
FROM steps
LEFT JOIN slowest USING (at_s)
ORDER BY steps.at_s
