"""What is given to be adopted, looked at and found fit, and how it is copied and named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.adopt.copying import Told


@dataclass(frozen=True)
class Given:
    """``files`` and ``bytes`` are those that are there; ``mark`` is what ``adopted.json`` is to say, None: nothing new.

    ``copy`` makes a folder of them and returns path → SHA-256; ``name`` names the run whose sealed evidence that is.
    """

    format: str
    mark: Mapping[str, int | str] | None
    files: int
    bytes: int
    stream_only: bool
    copy: Callable[[Path, Told], dict[str, str]]
    name: Callable[[Path], str]
