-- asks: Which counters does the report's producer not count? An absent one of these is not measured, never 0.
SELECT run, list(metric(counter) ORDER BY counter) AS counters
FROM capabilities
WHERE NOT counted AND counter NOT LIKE 'driver.%'
GROUP BY run
