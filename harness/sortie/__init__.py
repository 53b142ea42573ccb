"""The documents a load leaves: report, results stream, log, times, and the thresholds that judge a report."""
