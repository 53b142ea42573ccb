-- query: compare
-- asks: How does a run stand beside another, target by target and in all, and are the two alike enough to be compared?
-- params: run base
-- unlike names what differs between the two runs; where it is not NULL, the ratio is not a regression or a gain. NULL is
-- not measured. Of a published run only the totals are known, and of those what its source says: its row is the last.
WITH
shares AS (SELECT run, string_agg(target || '=' || rate_rps, ' ' ORDER BY target) AS shares FROM plan_targets GROUP BY run),
known AS (
    SELECT
        run, profile, fleet, duration_s, backends, shares,
        CASE WHEN source IN ('nighthawk', 'k6') THEN source ELSE 'sortie' END
            || CASE WHEN run IN (SELECT run FROM capabilities WHERE counter = 'driver.open_loop' AND NOT counted)
                THEN ' in a closed loop' ELSE '' END AS report_of,
        false AS totals_only
    FROM runs
    LEFT JOIN shares USING (run)
    UNION ALL
    SELECT run, profile, NULL, duration_s, backends, shares, NULL, true FROM published
),
this AS (SELECT * FROM known WHERE run = $run),
other AS (SELECT * FROM known WHERE run = $base),
unlike AS (
    SELECT nullif(concat_ws('; ',
        CASE WHEN this.run IS NULL THEN $run || ' has no table of what it is' END,
        CASE WHEN other.run IS NULL THEN $base || ' has no table of what it is' END,
        CASE WHEN this.totals_only THEN $run || ' is published totals' END,
        CASE WHEN other.totals_only THEN $base || ' is published totals' END,
        CASE WHEN this.report_of <> other.report_of THEN 'measured by ' || this.report_of || ' and ' || other.report_of END,
        CASE WHEN this.profile IS DISTINCT FROM other.profile
            THEN 'profile ' || coalesce(this.profile, '?') || ' and ' || coalesce(other.profile, '?') END,
        CASE WHEN this.fleet IS DISTINCT FROM other.fleet
            THEN 'fleet ' || coalesce(this.fleet, '?') || ' and ' || coalesce(other.fleet, '?') END,
        CASE WHEN this.duration_s IS DISTINCT FROM other.duration_s
            THEN 'duration_s ' || coalesce(this.duration_s::VARCHAR, '?') || ' and ' || coalesce(other.duration_s::VARCHAR, '?')
            END,
        CASE WHEN this.backends IS DISTINCT FROM other.backends
            THEN 'backends ' || coalesce(this.backends::VARCHAR, '?') || ' and ' || coalesce(other.backends::VARCHAR, '?') END,
        CASE WHEN this.shares IS DISTINCT FROM other.shares THEN 'targets or their shares' END,
        (SELECT string_agg(run || ' is a drill', '; ' ORDER BY run)
            FROM settings WHERE run IN ($run, $base) AND key = 'fault' AND value <> '')
    ), '') AS unlike
    FROM (SELECT 1) LEFT JOIN this ON true LEFT JOIN other ON true
),
figures AS (
    SELECT run, target_no, target, http_2xx, planned, p50_ns / 1e6 AS p50_ms, p99_ns / 1e6 AS p99_ms, max_ns / 1e6 AS max_ms
    FROM target_summary
    UNION ALL
    SELECT
        run, NULL, 'all targets', sum(http_2xx), CASE WHEN count(*) = count(planned) THEN sum(planned) END,
        max(p50_ns) / 1e6, max(p99_ns) / 1e6, max(max_ns) / 1e6
    FROM target_summary
    GROUP BY run
    UNION ALL
    SELECT run, NULL, 'all targets', http_2xx, planned, worst_p50_ms, worst_p99_ms, worst_max_ms FROM published
),
mine AS (SELECT *, target_no IS NULL AS in_all FROM figures WHERE run = $run),
theirs AS (SELECT *, target_no IS NULL AS in_all FROM figures WHERE run = $base)
SELECT
    target,
    CAST(mine.http_2xx AS BIGINT) AS http_2xx,
    CAST(mine.planned AS BIGINT) AS planned,
    CAST(theirs.http_2xx AS BIGINT) AS base_http_2xx,
    CAST(theirs.planned AS BIGINT) AS base_planned,
    round(mine.p50_ms, 3) AS p50_ms,
    round(theirs.p50_ms, 3) AS base_p50_ms,
    round(mine.p99_ms, 3) AS p99_ms,
    round(theirs.p99_ms, 3) AS base_p99_ms,
    round(mine.p99_ms / nullif(theirs.p99_ms, 0), 2) AS p99_ratio,
    round(mine.max_ms, 3) AS max_ms,
    round(theirs.max_ms, 3) AS base_max_ms,
    (SELECT unlike FROM unlike) AS unlike
FROM mine
FULL JOIN theirs USING (target, in_all)
ORDER BY in_all, coalesce(mine.target_no, theirs.target_no), target
