"""Counters and statistics of plain HTTP, under Nighthawk's names: all that an engine here counts and measures."""

from __future__ import annotations

COUNTERS = tuple(
    f"benchmark.{name}"
    for name in (
        "http_1xx", "http_2xx", "http_3xx", "http_4xx", "http_5xx", "http_xxx", "stream_resets",
        "stream_resets_before_headers", "stream_resets_incomplete_body", "pool_overflow", "pool_connection_failure",
        "pool_failure_local_connection_failure", "pool_failure_remote_connection_failure", "pool_failure_timeout",
        "http_inflight_lost",
    )
)  # fmt: skip

# Parts of a count that is told as a whole too (stream_resets, pool_connection_failure). A producer that tells the whole
# alone says of its parts only that none moved where the whole did not.
PARTS = frozenset(
    f"benchmark.{name}"
    for name in (
        "stream_resets_before_headers", "stream_resets_incomplete_body", "pool_failure_local_connection_failure",
        "pool_failure_remote_connection_failure",
    )
)  # fmt: skip

# Envoy's reasons; which of them an engine can tell apart is its own affair, so an absent one is not a measured 0.
RESET_REASONS = tuple(
    f"benchmark.stream_resets_{reason}"
    for reason in (
        "local_reset", "local_refused_stream_reset", "remote_reset", "remote_refused_stream_reset",
        "remote_reset_no_error", "local_connection_failure", "remote_connection_failure", "connection_timeout",
        "connection_termination", "overflow", "connect_error", "protocol_error", "overload_manager",
        "http1_premature_upstream_half_close",
    )
)  # fmt: skip

# Durations that come with a histogram, hence with any percentile.
WITH_HISTOGRAM = (
    *(f"benchmark_http_client.latency_{status}" for status in ("xxx", "1xx", "2xx", "3xx", "4xx", "5xx")),
    "benchmark_http_client.request_to_response",
    "harness.send_delay",
)
# Durations of which only p50, p90, p99 and p99.9 are told.
WITHOUT_HISTOGRAM = ("benchmark_http_client.queue_to_connect", "sequencer.callback")
# Bytes, without percentiles.
SIZES = ("benchmark_http_client.response_header_size", "benchmark_http_client.response_body_size")

STATISTICS = (*WITH_HISTOGRAM, *WITHOUT_HISTOGRAM, *SIZES)
