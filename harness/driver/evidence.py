"""Every file the driver writes, in one place: what cannot be written ends the load in a sentence."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.driver.claim import claim_load
from harness.errors import StageError
from harness.files import LineLog, write_atomic, write_json
from harness.runs import RunFolder
from harness.sortie.report import Execution, encode_report, encode_stream_line


@dataclass(frozen=True)
class Files:
    """Where a driver writes. ``log`` None is stdout: the log of a pod is kept by its node."""

    report: Path
    stream: Path
    claim: Path
    log: Path | None
    progress_json: Path
    progress: Path
    histograms: Path

    @classmethod
    def of(cls, folder: RunFolder) -> Files:
        """The live files of a run."""
        live = folder.live
        return cls(
            report=folder.report_json,
            stream=folder.stream,
            claim=folder.load_json,
            log=folder.driver_log,
            progress_json=folder.progress_json,
            progress=live / "progress.jsonl",
            histograms=live / "histograms.jsonl",
        )

    @classmethod
    def beside(cls, report: Path, *, stream: Path | None = None) -> Files:
        """Files of one run on a volume that holds several: ``RUN.json``, ``RUN.jsonl``, ``RUN.load.json`` …."""
        return cls(
            report=report,
            stream=stream or report.with_suffix(".jsonl"),
            claim=report.with_suffix(".load.json"),
            log=None,
            progress_json=report.with_suffix(".progress.json"),
            progress=report.with_suffix(".progress.jsonl"),
            histograms=report.with_suffix(".histograms.jsonl"),
        )


class Evidence:
    """The files of one load. Every method raises StageError when its file cannot be written.

    The results stream is durable line by line; log, progress and histograms are written through and left to the system.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._stream = self._open(files.stream, durable=True)
        self._log = self._open(files.log) if files.log else None
        self._progress = self._open(files.progress)
        self._histograms = self._open(files.histograms)

    def _open(self, path: Path, *, durable: bool = False) -> LineLog:
        with _writing(path):
            return LineLog(path, durable=durable)

    def claim(self, *, start_unix_ns: int, duration_s: int) -> None:
        """Claim the load. Raises LoadError when it was claimed before."""
        with _writing(self._files.claim):
            claim_load(self._files.claim, start_unix_ns=start_unix_ns, duration_s=duration_s)

    def log(self, *lines: str) -> None:
        """Append to the driver's log."""
        if self._log is not None:
            self._append(self._log, lines)
            return
        with _writing(Path("stdout")):
            for line in lines:
                print(line, flush=True)

    def progress(self, snapshot: dict[str, Any]) -> None:
        """Replace the newest counts."""
        with _writing(self._files.progress_json):
            write_json(self._files.progress_json, snapshot)

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
        with _writing(self._files.report):
            write_atomic(self._files.report, encode_report(executions))

    def close(self) -> None:
        """Close the files that lines go to."""
        for log in (self._stream, self._log, self._progress, self._histograms):
            if log is not None:
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
