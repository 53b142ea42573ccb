-- query: compare
-- asks: How does a run stand beside another, target by target and in all, and are the two alike enough to be compared?
-- params: run base
-- unlike names what differs between the two runs and what is broken in either; where it is not NULL, there is no ratio.
-- A ladder is none of these: compare-ladders sets two of them side by side.
-- NULL is not measured. Of a published run only the totals are known, and of those what its source says.
WITH
shares AS (SELECT run, string_agg(target || '=' || rate_rps, ' ' ORDER BY target) AS shares FROM plan_targets GROUP BY run),
summed AS (
    SELECT run, sum(http_2xx) AS http_2xx, CASE WHEN count(*) = count(planned) THEN sum(planned) END AS planned,
        max(p50_ns) / 1e6 AS p50_ms, max(p99_ns) / 1e6 AS p99_ms, max(max_ns) / 1e6 AS max_ms, bool_or(own_engine) AS own
    FROM target_summary
    GROUP BY run
),
-- latencies start at another moment with each of these
producers AS (
    SELECT
        run,
        CASE WHEN own THEN 'this harness' WHEN source IN ('nighthawk', 'k6') THEN source ELSE 'sortie' END
            || CASE WHEN run IN (SELECT run FROM capabilities WHERE counter = 'driver.open_loop' AND NOT counted)
                THEN ' in a closed loop' ELSE '' END AS measured_by
    FROM runs
    LEFT JOIN summed USING (run)
),
engines AS (
    SELECT
        run,
        count(DISTINCT backend) FILTER (lost) AS lost_backends,
        list(DISTINCT node ORDER BY node)
            FILTER (lost OR state = 'graded' AND NOT returned AND NOT refusal AND NOT is_refused) AS gone,
        histogram(target) FILTER (p99_ns IS NOT NULL) AS timed
    FROM cells
    JOIN plan_targets USING (run, target_no)
    GROUP BY run
),
known AS (
    SELECT run, profile, fleet, duration_s, backends, shares, measured_by, lost_backends, timed, false AS totals_only
    FROM runs
    LEFT JOIN shares USING (run)
    LEFT JOIN producers USING (run)
    LEFT JOIN engines USING (run)
    UNION ALL
    SELECT run, profile, NULL, duration_s, backends, shares, NULL, lost_backends, NULL, true FROM published
),
graded AS (
    SELECT run, CASE state WHEN 'damaged' THEN 'DAMAGED' WHEN 'refused' THEN 'REFUSED' ELSE verdict END AS verdict
    FROM run_folders
    LEFT JOIN verdicts USING (run)
    UNION ALL
    SELECT run, verdict FROM published
),
this AS (SELECT * FROM graded LEFT JOIN known USING (run) WHERE run = $run),
other AS (SELECT * FROM graded LEFT JOIN known USING (run) WHERE run = $base),
broken AS (
    SELECT run, 1 AS nth, 'lost engines' AS what, gone AS names FROM engines
    UNION ALL
    SELECT run, 2, 'targets not run', list(target ORDER BY target_no) FILTER (state <> 'graded') FROM target_states GROUP BY run
    UNION ALL
    SELECT run, 3, 'starts refused', list(target ORDER BY target_no) FILTER (is_refused) FROM target_states GROUP BY run
    UNION ALL
    SELECT run, 4, 'drill', [value] FROM settings WHERE key = 'fault' AND value <> ''
),
a_ladder AS (
    SELECT run FROM run_folders WHERE kind = 'e8'
    UNION
    SELECT run FROM published_ladders
),
told AS (
    SELECT string_agg(
        what || ' of ' || run || ': ' || array_to_string(names[:5], ', ')
            || CASE WHEN len(names) > 5 THEN ' and ' || len(names) - 5 || ' more' ELSE '' END,
        '; ' ORDER BY nth, run
    ) AS broken
    FROM broken
    WHERE run IN ($run, $base) AND names IS NOT NULL
),
unlike AS (
    SELECT nullif(concat_ws('; ',
        (
            SELECT error(
                'refused: ' || min(run) || ' is a ladder, and this question is of soaks; `harness sql compare-ladders` sets two '
                || 'ladders of one arm side by side'
            )
            FROM a_ladder
            WHERE run IN ($run, $base)
            HAVING count(*) > 0
        ),
        CASE WHEN this.totals_only IS NULL THEN $run || ' has no table of what it is' END,
        CASE WHEN other.totals_only IS NULL THEN $base || ' has no table of what it is' END,
        CASE WHEN this.totals_only THEN $run || ' is published totals' END,
        CASE WHEN other.totals_only THEN $base || ' is published totals' END,
        CASE WHEN this.verdict IN ('PASS', 'UNPROVEN') AND this.verdict = other.verdict THEN NULL
            ELSE 'verdict ' || coalesce(this.verdict, 'not known') || ' beside ' || coalesce(other.verdict, 'not known')
            END,
        broken,
        CASE WHEN this.measured_by <> other.measured_by
            THEN 'measured by ' || this.measured_by || ' and ' || other.measured_by END,
        CASE WHEN this.totals_only IS NOT NULL AND other.totals_only IS NOT NULL THEN nullif(concat_ws('; ',
            CASE WHEN this.profile IS DISTINCT FROM other.profile
                THEN 'profile ' || coalesce(this.profile, '?') || ' and ' || coalesce(other.profile, '?') END,
            CASE WHEN this.fleet IS DISTINCT FROM other.fleet
                THEN 'fleet ' || coalesce(this.fleet, '?') || ' and ' || coalesce(other.fleet, '?') END,
            CASE WHEN this.duration_s IS DISTINCT FROM other.duration_s
                THEN concat('duration_s ', coalesce(this.duration_s::VARCHAR, '?'), ' and ',
                    coalesce(other.duration_s::VARCHAR, '?')) END,
            CASE WHEN this.backends IS DISTINCT FROM other.backends
                THEN concat('backends ', coalesce(this.backends::VARCHAR, '?'), ' and ',
                    coalesce(other.backends::VARCHAR, '?')) END,
            CASE WHEN this.shares IS DISTINCT FROM other.shares THEN 'targets or their shares' END
        ), '') END,
        CASE WHEN broken IS NULL AND this.measured_by = other.measured_by AND this.shares = other.shares
                AND this.timed IS DISTINCT FROM other.timed
            THEN 'how many nodes of a target have a latency' END
    ), '') AS unlike
    FROM told LEFT JOIN this ON true LEFT JOIN other ON true
),
figures AS (
    SELECT run, target_no, target, http_2xx, planned, p50_ns / 1e6 AS p50_ms, p99_ns / 1e6 AS p99_ms, max_ns / 1e6 AS max_ms
    FROM target_summary
    UNION ALL
    SELECT run, NULL, 'all targets', http_2xx, planned, p50_ms, p99_ms, max_ms
    FROM run_folders
    LEFT JOIN summed USING (run)
    UNION ALL
    SELECT run, NULL, 'all targets', http_2xx, planned, worst_p50_ms, worst_p99_ms, worst_max_ms FROM published
    UNION ALL
    SELECT run, NULL, 'all targets', NULL, NULL, NULL, NULL, NULL FROM published_ladders
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
    CASE WHEN unlike IS NULL THEN round(mine.p99_ms / nullif(theirs.p99_ms, 0), 2) END AS p99_ratio,
    round(mine.max_ms, 3) AS max_ms,
    round(theirs.max_ms, 3) AS base_max_ms,
    (SELECT verdict FROM this) AS verdict,
    (SELECT verdict FROM other) AS base_verdict,
    (SELECT lost_backends FROM this) AS lost_backends,
    (SELECT lost_backends FROM other) AS base_lost_backends,
    unlike
FROM mine
FULL JOIN theirs USING (target, in_all)
CROSS JOIN unlike
ORDER BY in_all, coalesce(mine.target_no, theirs.target_no), target
