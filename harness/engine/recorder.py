"""What became of every request of one execution: counters and statistics under Nighthawk's names.

The hot path only appends to lists; they are folded into distributions in small batches, so that no fold holds the
loop long enough to delay a request by a millisecond.

Every released request ends in exactly one of ``responded``, ``reset`` and ``failed``, hence at any moment
``released = outcomes + still open``, and at the end ``released = outcomes``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from harness.engine.distribution import Distribution

FOLD_AT = 256  # about 0.5 ms of folding
STATUS_CLASSES = ("http_xxx", "http_1xx", "http_2xx", "http_3xx", "http_4xx", "http_5xx")
OVERFLOW = "pool_overflow"
LOCAL_FAILURE = "pool_failure_local_connection_failure"
REMOTE_FAILURE = "pool_failure_remote_connection_failure"
CONNECT_TIMEOUT = "pool_failure_timeout"
INFLIGHT_LOST = "http_inflight_lost"

_CLIENT = "benchmark_http_client."
REQUEST_TO_RESPONSE = f"{_CLIENT}request_to_response"
QUEUE_TO_CONNECT = f"{_CLIENT}queue_to_connect"
CALLBACK = "sequencer.callback"
SEND_DELAY = "harness.send_delay"
BODY_SIZE = f"{_CLIENT}response_body_size"
HEADER_SIZE = f"{_CLIENT}response_header_size"
RAW = frozenset({BODY_SIZE, HEADER_SIZE})  # bytes; all other statistics are nanoseconds
PERCENTILES = {"p50": 500, "p90": 900, "p99": 990, "p99.9": 999}  # thousandths


class Recorder:
    """Counts and times one execution. All moments are CLOCK_MONOTONIC nanoseconds."""

    def __init__(self) -> None:
        self.outcomes = 0
        self._counters: Counter[str] = Counter()
        self._by_class = [0] * len(STATUS_CLASSES)
        self._latencies: list[list[int]] = [[] for _ in STATUS_CLASSES]
        self._request_to_response: list[int] = []
        self._callbacks: list[int] = []
        self._body_sizes: list[int] = []
        self._header_sizes: list[int] = []
        self._queue_waits: list[int] = []
        self._send_delays: list[int] = []
        self._buffers: dict[str, list[int]] = {
            **{_latency_id(name): self._latencies[index] for index, name in enumerate(STATUS_CLASSES)},
            REQUEST_TO_RESPONSE: self._request_to_response,
            QUEUE_TO_CONNECT: self._queue_waits,
            CALLBACK: self._callbacks,
            SEND_DELAY: self._send_delays,
            BODY_SIZE: self._body_sizes,
            HEADER_SIZE: self._header_sizes,
        }
        self._distributions = {name: Distribution() for name in self._buffers}
        self._interval = Distribution()  # latency_2xx since the last take_interval

    def connected(self, wait_ns: int) -> None:
        """A released request has a connection in hand after ``wait_ns``."""
        self._queue_waits.append(wait_ns)

    def written(self, delay_ns: int) -> None:
        """A request went to the socket ``delay_ns`` after its intended moment."""
        self._send_delays.append(delay_ns)

    def responded(
        self, status: int, *, due_ns: int, written_ns: int, done_ns: int, header_bytes: int, body_bytes: int
    ) -> None:
        """A complete response. Latency runs from the intended moment: a late client hides nothing."""
        index = status // 100 if 100 <= status < 600 else 0
        self.outcomes += 1
        self._by_class[index] += 1
        self._latencies[index].append(done_ns - due_ns)
        self._request_to_response.append(done_ns - written_ns)
        self._callbacks.append(done_ns - due_ns)
        self._header_sizes.append(header_bytes)
        self._body_sizes.append(body_bytes)
        if len(self._callbacks) >= FOLD_AT:
            self.fold()

    def reset(self, phase: str, reason: str, elapsed_ns: int) -> None:
        """The connection ended under a request. ``phase``: ``before_headers`` or ``incomplete_body``."""
        self._counters.update(("stream_resets", f"stream_resets_{phase}", f"stream_resets_{reason}"))
        self._ended(elapsed_ns)

    def failed(self, counter: str, elapsed_ns: int) -> None:
        """Overflow, a failed or timed-out connect, or lost in flight: the request ends without a response."""
        self._counters[counter] += 1
        if counter in (LOCAL_FAILURE, REMOTE_FAILURE):
            self._counters["pool_connection_failure"] += 1
        self._ended(elapsed_ns)

    def _ended(self, elapsed_ns: int) -> None:
        self.outcomes += 1
        self._callbacks.append(elapsed_ns)
        if len(self._callbacks) >= FOLD_AT:
            self.fold()

    def fold(self) -> None:
        """Move buffered samples into the distributions."""
        self._interval.add_all(self._buffers[LATENCY_2XX])
        for name, buffer in self._buffers.items():
            if name != LATENCY_2XX:
                self._distributions[name].add_all(buffer)
            buffer.clear()

    def take_interval(self) -> dict[str, int]:
        """``count`` and, with samples, ``p50_ns``, ``p99_ns`` and ``max_ns`` of latency_2xx since the last call."""
        self.fold()
        interval, self._interval = self._interval, Distribution()
        self._distributions[LATENCY_2XX].merge(interval)
        if not interval.count:
            return {"count": 0}
        p50_ns, p99_ns = interval.percentiles((500, 990))
        return {"count": interval.count, "p50_ns": p50_ns, "p99_ns": p99_ns, "max_ns": interval.max}

    def counters(self) -> dict[str, int]:
        """Non-zero counters with their ``benchmark.`` prefix."""
        classes = zip(STATUS_CLASSES, self._by_class, strict=True)
        found = {name: count for name, count in classes if count} | dict(self._counters)
        return {f"benchmark.{name}": found[name] for name in sorted(found)}

    def statistics(self) -> dict[str, dict[str, Any]]:
        """Every statistic with samples. One without is absent: no sample is not a measured 0."""
        self.take_interval()
        return {
            name: _summary(distribution, raw=name in RAW)
            for name, distribution in self._distributions.items()
            if distribution.count
        }

    def histograms(self) -> dict[str, str]:
        """Encoded distributions (ns) of the latencies, request_to_response and send_delay, by short name."""
        self.take_interval()
        return {
            name.rpartition(".")[2]: distribution.encode()
            for name, distribution in self._distributions.items()
            if distribution.count and name not in RAW and name not in (QUEUE_TO_CONNECT, CALLBACK)
        }


def _summary(distribution: Distribution, *, raw: bool) -> dict[str, Any]:
    summary = {
        "count": distribution.count,
        "unit": "raw" if raw else "ns",
        "mean": distribution.mean,
        "pstdev": distribution.pstdev,
        "min": distribution.min,
        "max": distribution.max,
    }
    if not raw:
        summary |= zip(PERCENTILES, distribution.percentiles(tuple(PERCENTILES.values())), strict=True)
    return summary


def _latency_id(status_class: str) -> str:
    return f"{_CLIENT}latency_{status_class.removeprefix('http_')}"


LATENCY_2XX = _latency_id("http_2xx")
