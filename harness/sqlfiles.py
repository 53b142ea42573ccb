"""Where the SQL of this project is: the checkout's ``sql/``, else the copy that an installed wheel carries."""

from __future__ import annotations

from pathlib import Path

from harness.errors import HarnessError

PACKAGE = Path(__file__).parent


def sql_folder(name: str) -> Path:
    """The folder ``sql/<name>`` (``gates``, ``views``, ``history``). Raises HarnessError when there is none."""
    for root in (PACKAGE.parent / "sql", PACKAGE / "_sql"):
        if (root / name).is_dir():
            return root / name
    raise HarnessError(f"sql/{name} is not there; install the project again")


def sql_files(name: str) -> list[Path]:
    """The ``.sql`` files of a folder by name, which is the order they are used in."""
    return sorted(sql_folder(name).glob("*.sql"))
