"""Named questions: one SQL file each under ``sql/history``, with a header that says what it asks.

-- query: slowest          the name on the command line
-- asks: Which target …?   one sentence, may go on in further ``-- asks:`` lines, or in ``--   …`` lines below it
-- params: limit=20 run    declared parameters, ``name=default`` or ``name`` (must be given); bound as $name
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError
from harness.sqlfiles import sql_files

HEADER = re.compile(r"--\s*([a-z]+):\s*(.*)")
CONTINUED = re.compile(r"--\s{2,}(.*)")


@dataclass(frozen=True)
class Query:
    """A named question. ``params`` maps a name to its default, None where a value must be given."""

    name: str
    asks: str
    params: Mapping[str, str | None]
    sql: str

    def bind(self, given: Mapping[str, str]) -> dict[str, str]:
        """All parameters with their values. Raises UsageError for an undeclared or a missing one."""
        if unknown := sorted(set(given) - set(self.params)):
            raise UsageError(
                f"query {self.name} has no parameter {unknown[0]}; it takes: {', '.join(self.params) or 'none'}"
            )
        values = {name: given.get(name, default) for name, default in self.params.items()}
        if missing := [name for name, value in values.items() if value is None]:
            raise UsageError(f"query {self.name} needs --param {missing[0]}=…")
        return {name: value for name, value in values.items() if value is not None}


def _header(text: str) -> dict[str, list[str]]:
    """Key → its values, of the ``-- key: value`` lines a file starts with; a ``--   …`` line goes on with the last."""
    header: dict[str, list[str]] = {}
    values: list[str] = []
    for line in text.splitlines():
        if match := HEADER.fullmatch(line.strip()):
            values = header.setdefault(match[1], [])
            values.append(match[2].strip())
        elif (match := CONTINUED.fullmatch(line)) and values:
            values[-1] += " " + match[1].strip()
        elif not line.startswith("--"):
            break
        else:
            values = []
    return header


def parse_query(text: str, where: str) -> Query:
    """One file's text. Raises UsageError when the header lacks a name or the question."""
    header = _header(text)
    if len(header.get("query", [])) != 1 or not header.get("asks"):
        raise UsageError(f"{where} must start with one '-- query: NAME' line and an '-- asks: …' line")
    params: dict[str, str | None] = {}
    for item in " ".join(header.get("params", [])).split():
        name, equals, default = item.partition("=")
        params[name] = default if equals else None
    return Query(header["query"][0], " ".join(header["asks"]), params, text)


def named_queries(kind: str) -> dict[str, Query]:
    """Every question under ``sql/<kind>``, by name. Raises UsageError for a bad header or a name used twice."""
    found: dict[str, Query] = {}
    for path in sql_files(kind):
        query = parse_query(path.read_text(encoding="utf-8"), path.name)
        if query.name in found:
            raise UsageError(f"two files in sql/{kind} are called {query.name}")
        found[query.name] = query
    return found
