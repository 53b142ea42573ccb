"""What commands print: tables for people, JSON for machines, and no terminal control out of anybody's data."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import count
from typing import Any

import click

from harness.terminal import printable as printable

CONTROLS = re.compile("[\x7f-\x9f\ud800-\udfff]")
"""What JSON may hold as it is and no terminal or UTF-8 takes: controls, halves of characters. It escapes the others."""


def echo_json(value: Any) -> None:
    """One JSON document on stdout, with a final newline."""
    text = json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False)
    click.echo(CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def plain(value: Any) -> Any:
    """``value`` in JSON's own types: moments as RFC 3339, exact decimals as numbers, what JSON lacks as text."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime):
        return stamp(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def stamp(moment: datetime) -> str:
    """A UTC moment as RFC 3339 with three decimals. Tables hold UTC without a zone."""
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def unique(columns: Sequence[str]) -> list[str]:
    """Column names with a number behind each repeated one, so that no value is lost as a key."""
    names: list[str] = []
    for column in columns:
        free = (f"{column}_{number}" for number in count(2))
        names.append(column if column not in names else next(name for name in free if name not in {*names, *columns}))
    return names


def text_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns aligned with spaces, numbers to the right, NULL spelled out (it is not 0 and not empty)."""
    numeric = [_is_numeric([row[i] for row in rows]) for i in range(len(columns))]
    cells = [[printable(column) for column in columns], *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    lines = [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in cells
    ]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _is_numeric(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(v, (int, float, Decimal)) and not isinstance(v, bool) for v in known)


def _cell(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.1f}"
    if isinstance(value, datetime):
        return stamp(value)
    return printable(str(value))


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, terminal: bool = False) -> str:
    """RFC 4180 with a header line, but for plain newlines. NULL is an empty field; an empty text is ``""``.

    Values are as they are, control characters too; for a ``terminal`` these are escaped.
    """
    return "".join(",".join(_field(value, terminal) for value in row) + "\n" for row in [columns, *rows])


def _field(value: Any, terminal: bool) -> str:
    if value is None:
        return ""
    text = stamp(value) if isinstance(value, datetime) else str(value)
    text = printable(text) if terminal else text
    return '"' + text.replace('"', '""') + '"' if not text or any(c in text for c in ',"\r\n') else text
