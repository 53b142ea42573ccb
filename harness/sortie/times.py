"""``times.tsv``: when each execution ran, and when each of its backends did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

ABSENT = "-"


def times_tsv(executions: Iterable[Mapping[str, Any]]) -> str:
    """Seven columns per backend that returned a result; one row with ``-`` for an execution where none did.

    label, started_at, ended_at, elapsed_ms, backend, the backend's started_at, and ``pass``, ``fail`` or ``not_run``.
    Takes the parsed entries of a report's ``executions`` or of a stream; a value that is absent reads ``-``.
    """
    return "".join("\t".join(row) + "\n" for execution in executions for row in _rows(execution))


def _rows(execution: Mapping[str, Any]) -> Iterable[list[str]]:
    head = [_text(execution.get(key)) for key in ("label", "started_at", "ended_at", "elapsed_ms")]
    verdict = "not_run" if execution.get("not_run") else "pass" if execution.get("pass") is True else "fail"
    for result in execution.get("results") or [{}]:
        yield [*head, _text(result.get("backend")), _text(result.get("started_at")), verdict]


def _text(value: object) -> str:
    """A field never holds a tab or a newline: labels and addresses of a foreign report could."""
    return ABSENT if value is None or value == "" else " ".join(str(value).split())
