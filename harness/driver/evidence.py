"""Every file the driver writes, in one place: what cannot be written ends the load in a sentence."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harness.driver.claim import claim_load
from harness.errors import StageError
from harness.files import LineLog, write_atomic, write_json
from harness.runs import RunFolder
from harness.sortie.report import Execution, encode_report, encode_stream_line


class Evidence:
    """The files of one load under ``live/``. Every method raises StageError when its file cannot be written.

    ``results.jsonl`` is durable line by line; log, progress and histograms are written through and left to the system.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._stream = self._open(folder.stream, durable=True)
        self._log = self._open(folder.driver_log)
        self._progress = self._open(folder.live / "progress.jsonl")
        self._histograms = self._open(folder.live / "histograms.jsonl")

    def _open(self, path: Path, *, durable: bool = False) -> LineLog:
        with _writing(path):
            return LineLog(path, durable=durable)

    def claim(self, *, start_unix_ns: int, duration_s: int) -> None:
        """Claim the load. Raises LoadError when it was claimed before."""
        with _writing(self._folder.load_json):
            claim_load(self._folder.load_json, start_unix_ns=start_unix_ns, duration_s=duration_s)

    def log(self, *lines: str) -> None:
        """Append to the driver's log."""
        self._append(self._log, lines)

    def progress(self, snapshot: dict[str, Any]) -> None:
        """Replace the newest counts."""
        with _writing(self._folder.progress_json):
            write_json(self._folder.progress_json, snapshot)

    def progress_rows(self, rows: Iterable[dict[str, Any]]) -> None:
        """Append to the history of counts."""
        self._append(self._progress, map(_compact, rows))

    def histograms(self, rows: Iterable[dict[str, Any]]) -> None:
        """Append encoded histograms."""
        self._append(self._histograms, map(_compact, rows))

    def stream(self, executions: Iterable[Execution]) -> None:
        """Append finished executions to the results stream."""
        self._append(self._stream, map(encode_stream_line, executions))

    def report(self, executions: Iterable[Execution]) -> None:
        """Write the report, whole: the last thing a load does."""
        with _writing(self._folder.report_json):
            write_atomic(self._folder.report_json, encode_report(executions))

    def close(self) -> None:
        """Close the files that lines go to."""
        for log in (self._stream, self._log, self._progress, self._histograms):
            log.close()

    def _append(self, log: LineLog, lines: Iterable[str]) -> None:
        with _writing(log.path):
            for line in lines:
                log.write(line)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StageError(
            f"{path} cannot be written ({error.strerror or error}), so the load was ended; "
            "make room or rights there, then start a new run"
        ) from error


def _compact(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
