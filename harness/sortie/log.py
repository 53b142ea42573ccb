"""The lines of the driver's log. Scripts read two of them: a first word ``SKIP``, and the last line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.sortie.durations import format_duration, format_duration_ms
from harness.sortie.report import Execution

DETAIL_INDENT = " " * 7
PROGRESS_COUNTERS = (
    "http_3xx",
    "http_4xx",
    "http_5xx",
    "pool_overflow",
    "stream_resets",
    "stream_resets_before_headers",
    "stream_resets_incomplete_body",
    "pool_connection_failure",
    "pool_failure_timeout",
)


def running_line(execution: Execution) -> str:
    """``  running LABEL (R rps per backend for D) on ip:port, ip:port``."""
    return f"  running {execution.label} ({_rate(execution)}) on {', '.join(execution.backends)}"


def progress_line(
    label: str,
    backend: str,
    *,
    elapsed_s: int,
    counters: Mapping[str, int],
    mean_ns: int | None = None,
    max_ns: int | None = None,
) -> str:
    """``    LABEL  ip:port  5m0s  http_2xx N  …  mean X  max Y``: counters that moved, latencies where known."""
    fields = [label, backend, format_duration_ms(elapsed_s * 1000)]
    fields.append(f"http_2xx {counters.get('benchmark.http_2xx', 0)}")
    moved = ((name, counters.get(f"benchmark.{name}", 0)) for name in PROGRESS_COUNTERS)
    fields += [f"{name} {value}" for name, value in moved if value]
    latencies = (("mean", mean_ns), ("max", max_ns))
    fields += [f"{name} {format_duration(value)}" for name, value in latencies if value is not None]
    return "    " + "  ".join(fields)


def verdict_line(execution: Execution) -> str:
    """``  PASS LABEL (scenario S, ELAPSED)``, ``  FAIL … : why; why`` or ``  SKIP LABEL (scenario S): not run: …``."""
    scenario = f"scenario {execution.scenario}"
    if execution.not_run:
        return f"  SKIP {execution.label} ({scenario}): {_one_line(execution.error or 'not run: no reason given')}"
    line = f"{execution.label} ({scenario}, {format_duration_ms(execution.elapsed_ms)})"
    return f"  PASS {line}" if execution.passed else f"  FAIL {line}: {'; '.join(reasons(execution))}"


def summary_lines(execution: Execution) -> list[str]:
    """The execution's part of the closing block: its line, then an indented line for each reason."""
    about = [f'{_rate(execution)}, pool "{execution.pool}"']
    if execution.not_run:
        word = "SKIP"
    else:
        word = "  ok" if execution.passed else "FAIL"
        about.append(format_duration_ms(execution.elapsed_ms))
        if execution.started_at:
            about.append(f"started {execution.started_at}")
    head = f"{word:<6} {execution.label}  ({', '.join(about)})"
    return [head, *(DETAIL_INDENT + reason for reason in reasons(execution))]


def last_line(executions: Sequence[Execution]) -> str:
    """``PASS  P/T executions passed`` or ``FAIL  P/T executions passed, K not run``; T leaves out the K."""
    not_run = sum(execution.not_run for execution in executions)
    passed = sum(execution.passed for execution in executions)
    total = len(executions) - not_run
    word = "PASS" if executions and passed == len(executions) else "FAIL"
    return f"{word}  {passed}/{total} executions passed" + (f", {not_run} not run" if not_run else "")


def reasons(execution: Execution) -> list[str]:
    """Why an execution did not pass, one line each; empty when it passed."""
    found = [_one_line(execution.error)] if execution.error else []
    found += [f"threshold {t.expr} (actual {t.actual})" for t in execution.thresholds if not t.passed]
    if not execution.error or execution.refused:
        found += [f"backend {error.backend}: {_one_line(error.error)}" for error in execution.backend_errors]
    return found


def _rate(execution: Execution) -> str:
    per_backend = " per backend" if execution.per_backend else ""
    return f"{execution.rate_rps} rps{per_backend} for {format_duration_ms(execution.duration_ms)}"


def _one_line(text: str) -> str:
    """The error of an execution may list one backend a line; a log line is one line."""
    return "; ".join(part.strip() for part in text.splitlines() if part.strip())
