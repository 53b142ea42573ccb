-- query: compare
-- asks: How does a run stand beside another, target by target, and are the two alike enough to be compared?
-- params: run base
-- unlike names what differs between the two runs; where it is not NULL, the ratio is not a regression or a gain.
WITH
this AS (SELECT * FROM runs WHERE run = $run),
other AS (SELECT * FROM runs WHERE run = $base),
shares AS (SELECT run, string_agg(target || '=' || rate_rps, ' ' ORDER BY target) AS shares FROM plan_targets GROUP BY run),
unlike AS (
    SELECT nullif(concat_ws('; ',
        CASE WHEN this.profile IS DISTINCT FROM other.profile
            THEN 'profile ' || coalesce(this.profile, '?') || ' and ' || coalesce(other.profile, '?') END,
        CASE WHEN this.fleet IS DISTINCT FROM other.fleet
            THEN 'fleet ' || coalesce(this.fleet, '?') || ' and ' || coalesce(other.fleet, '?') END,
        CASE WHEN this.duration_s IS DISTINCT FROM other.duration_s
            THEN 'duration_s ' || coalesce(this.duration_s::VARCHAR, '?') || ' and ' || coalesce(other.duration_s::VARCHAR, '?')
            END,
        CASE WHEN this.backends <> other.backends THEN 'backends ' || this.backends || ' and ' || other.backends END,
        CASE WHEN (SELECT shares FROM shares WHERE run = $run) IS DISTINCT FROM (SELECT shares FROM shares WHERE run = $base)
            THEN 'targets or their shares' END,
        (SELECT string_agg(run || ' is a drill', '; ' ORDER BY run)
            FROM settings WHERE run IN ($run, $base) AND key = 'fault' AND value <> '')
    ), '') AS unlike
    FROM this CROSS JOIN other
),
mine AS (SELECT * FROM target_summary WHERE run = $run),
theirs AS (SELECT * FROM target_summary WHERE run = $base)
SELECT
    coalesce(mine.target, theirs.target) AS target,
    mine.http_2xx,
    mine.planned,
    theirs.http_2xx AS base_http_2xx,
    theirs.planned AS base_planned,
    round(mine.p50_ns / 1e6, 3) AS p50_ms,
    round(theirs.p50_ns / 1e6, 3) AS base_p50_ms,
    round(mine.p99_ns / 1e6, 3) AS p99_ms,
    round(theirs.p99_ns / 1e6, 3) AS base_p99_ms,
    round(mine.p99_ns / nullif(theirs.p99_ns, 0), 2) AS p99_ratio,
    round(mine.max_ns / 1e6, 3) AS max_ms,
    round(theirs.max_ns / 1e6, 3) AS base_max_ms,
    (SELECT unlike FROM unlike) AS unlike
FROM mine
FULL JOIN theirs USING (target)
ORDER BY coalesce(mine.target_no, theirs.target_no), target
