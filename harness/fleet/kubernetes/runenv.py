"""run.env: what a run is, as ``KEY=value`` lines that other tools read too, some of them with a shell.

It is written whole when the engines are ready, and grows by one key at a time, each once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from harness.errors import FleetError
from harness.files import write_atomic

KEYS = (
    "RUN_TAG", "MODE", "LABEL", "CTX", "NS", "SYS_NS", "RELEASE", "PVC", "BACKENDS", "DURATION_S", "REPORT_FILE",
    "STREAM_FILE", "STATSD", "SORTIE_CHART_VERSION", "SORTIE_CHART_DIGEST", "VERIFIED",
)  # fmt: skip
"""Keys of a new file, in their order; those of ``LATER`` are appended as they become known."""
LATER = ("JOB", "JOB_UID", "T_JOB", "T_LOAD")
VALUE = re.compile(r"[A-Za-z0-9._:/@%+,=-]*")
"""What a shell takes for nothing but text."""


def write_run_env(path: Path, values: Mapping[str, object]) -> None:
    """Write the keys of ``KEYS``; one that is not given reads empty. Raises FleetError for a value that cannot be."""
    write_atomic(path, "".join(_line(key, values.get(key, "")) for key in KEYS))


def append_run_env(path: Path, **values: object) -> None:
    """Append keys that are not there yet. Raises FleetError when one is there with another value."""
    there = read_run_env(path)
    for key, value in values.items():
        if key not in LATER:
            raise ValueError(key)
        if there.get(key, str(value)) != str(value):
            raise FleetError(f"{path} says {key}={there[key]}, and now it is {value}: this is another load")
    lines = "".join(_line(key, value) for key, value in values.items() if key not in there)
    if lines:
        write_atomic(path, path.read_text(encoding="utf-8") + lines)


def read_run_env(path: Path) -> dict[str, str]:
    """The file as it stands, empty when there is none. Raises FleetError when it cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise FleetError(f"{path} cannot be read: {error}") from error
    pairs = (line.partition("=") for line in lines)
    return {key: value for key, equals, value in pairs if equals}


def _line(key: str, value: object) -> str:
    text = str(value)
    if not VALUE.fullmatch(text):
        raise FleetError(f"{key}={text!r} cannot stand in run.env: it is read by shells, too")
    return f"{key}={text}\n"
