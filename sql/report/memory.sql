-- query: memory
-- asks: How much memory did all parts of a kind use together, at their worst moment?
-- One look takes a sample of every process at one moment, so the sum at a moment is a sum of what was there at once.
WITH looks AS (
    SELECT kind, "at", CASE WHEN count(*) = count(rss_bytes) THEN sum(rss_bytes) END AS rss_bytes
    FROM resources
    GROUP BY kind, "at"
)
SELECT kind, CASE WHEN count(*) = count(rss_bytes) THEN max(rss_bytes) END AS rss_peak_bytes
FROM looks
GROUP BY kind
