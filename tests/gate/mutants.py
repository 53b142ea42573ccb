"""Every row of a saved run deleted, doubled and corrupted: lines of every file, elements and keys of the report.

A mutant is a content for one file. Its ``kind`` is what was done to a row and its ``row`` where, with the place's
numbers left out in ``group``: one mutant of each (file, group, kind) is a sample that leaves no way of damage out.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from harness.store.readers import parse_json

Path = tuple[str | int, ...]
NUMBER = re.compile(r"\d+")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z")


@dataclass(frozen=True)
class Mutant:
    """One damaged file. ``row`` says where; ``said`` what stood there, for people; ``lacks`` which file is left out."""

    file: str
    row: str
    kind: str
    content: bytes
    said: str = ""
    lacks: str | None = None

    @property
    def group(self) -> tuple[str, str, str]:
        """The mutants that differ only in which target, node, threshold, line or statistic they are about."""
        row = re.sub(r"statistics\..*", "statistics.", self.row)
        return self.file, re.sub(r"\[\d+\]|:\d+", "[]", row), self.kind

    def applied(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """The run's files with this damage."""
        return {name: content for name, content in files.items() if name != self.lacks} | {self.file: self.content}

    def __str__(self) -> str:
        return f"{self.file} {self.row} {self.kind}{f' ({self.said})' if self.said else ''}"


def mutants_of(files: Mapping[str, bytes]) -> Iterator[Mutant]:
    """All mutants of a run.

    The report is damaged in a run without results stream: the stream is the same once more, and would tell.
    """
    for file, content in files.items():
        yield Mutant(file, "file", "emptied", b"", lacks=_twin(file))
        for mutant in _lines(file, content.decode()):
            if not _same(mutant.content, content):
                yield mutant
    yield from document_mutants("report.json", json.loads(files["report.json"]))
    lines = files["results.jsonl"].decode().splitlines()
    for number, line in enumerate(lines):
        for mutant in document_mutants("results.jsonl", json.loads(line)):
            changed = [*lines[:number], mutant.content.decode(), *lines[number + 1 :]]
            content = "".join(f"{text}\n" for text in changed).encode()
            yield replace(mutant, row=f":{number + 1} {mutant.row}", content=content)


def _twin(file: str) -> str | None:
    return "results.jsonl" if file == "report.json" else None


def _same(one: bytes, other: bytes) -> bool:
    """Equal, or equal documents: an object's keys have no order."""
    if one == other:
        return True
    try:
        return bool(parse_json(one) == parse_json(other))
    except ValueError:
        return False


# lines of text


def _lines(file: str, text: str) -> Iterator[Mutant]:
    """JSON is cut and torn by the line here; its elements and keys are taken one by one below."""
    is_json = file in ("report.json", "results.jsonl")
    lines = text.split("\n")[:-1]
    for number, line in enumerate(lines):
        row, before, after = _line_name(file, number, line), lines[:number], lines[number + 1 :]

        def mutant(kind: str, text: str, *, row: str = row, said: str = line[:60]) -> Mutant:
            return Mutant(file, row, kind, text.encode("utf-8", "surrogateescape"), said, _twin(file))

        def changed(*middle: str, before: list[str] = before, after: list[str] = after) -> str:
            return "".join(f"{one}\n" for one in (*before, *middle, *after))

        yield mutant("doubled", changed(line, line))
        yield mutant("a letter more", changed(line + "x"))
        yield mutant("control character", changed(f"{line[:3]}\0{line[3:]}"))
        yield mutant("no UTF-8", changed(line + "\udcff\udcfe"))
        yield mutant("end of the file lost", changed(after=[]))
        yield mutant("torn", changed(after=[]) + line[: len(line) // 2])
        if file == "report.json":
            continue
        yield mutant("deleted", changed())
        yield mutant("cut in half", changed(line[: len(line) // 2]))
        if after:
            yield mutant("swapped with the next", changed(after[0], line, after=after[1:]))
        if is_json:
            continue
        for match in NUMBER.finditer(line):
            place = f" field {1 + line[: match.start()].count(chr(9))}" if file.endswith(".tsv") else ""
            for kind, change in NUMBERS.items():
                other = f"{line[: match.start()]}{change(int(match[0]))}{line[match.end() :]}"
                yield mutant(kind, changed(other), row=row + place)
        for word, other in WORDS:
            if re.search(rf"{word}\b", line):
                yield mutant(f"{other} for {word}", changed(re.sub(rf"{word}\b", other, line)))


def _line_name(file: str, number: int, line: str) -> str:
    """``:9 BACKENDS``: the number, and the first word where lines are of many kinds."""
    words = re.findall(r"[A-Za-z_]{2,}", line) if file in ("run.env", "plan.yaml", "sortie.log", "churn.log") else []
    return " ".join([f":{number + 1}", *words[:1]])


def _each_number(line: str, change: Callable[[int], object]) -> Iterator[str]:
    for match in NUMBER.finditer(line):
        yield f"{line[: match.start()]}{change(int(match[0]))}{line[match.end() :]}"


WORDS = (
    ("PASS", "FAIL"), ("PASS", "SKIP"), ("  ok", "FAIL"), ("  ok", "SKIP"), ("ROLLED", "FAILED"), ("true", "false"),
)  # fmt: skip
NUMBERS: dict[str, Callable[[int], object]] = {
    "a number 10 % off": lambda number: number + max(number // 10, 1),
    "a number 0": lambda number: 0,
    "a number below 0": lambda number: -1 - number,
    "a number out of range": lambda number: 2**70,
    "a number no number": lambda number: "x",
}


# elements and keys of JSON


def document_mutants(file: str, document: Any) -> Iterator[Mutant]:
    for path in _paths(document):
        for kind, change in _changes(document, path):
            changed = copy.deepcopy(document)
            change(_at(changed, path[:-1]), path[-1])
            if changed != document:
                said = json.dumps(_at(document, path))[:60]
                yield Mutant(file, _json_name(path), kind, json.dumps(changed).encode(), said, _twin(file))


def _paths(value: Any, here: Path = ()) -> Iterator[Path]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield (*here, key)
        yield from _paths(child, (*here, key))


def _at(document: Any, path: Path) -> Any:
    for key in path:
        document = document[key]
    return document


def _json_name(path: Path) -> str:
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).replace(".benchmark.", ".")


Change = Callable[[Any, Any], None]


def _changes(document: Any, path: Path) -> Iterator[tuple[str, Change]]:
    parent, key, value = _at(document, path[:-1]), path[-1], _at(document, path)
    yield "deleted", lambda at, key: at.__delitem__(key)
    if isinstance(parent, dict):
        yield "renamed", lambda at, key: at.__setitem__(f"{key}_", at.pop(key))
        names = list(parent)
        neighbour: Any = names[names.index(key) + 1] if key != names[-1] else None
    else:
        yield "doubled", lambda at, key: at.insert(key, copy.deepcopy(at[key]))
        neighbour = key + 1 if isinstance(key, int) and key + 1 < len(parent) else None
    if neighbour is not None:
        yield "swapped with the next", _swap(neighbour)
    for kind, other in _values(value):
        yield kind, _put(other)


def _swap(neighbour: Any) -> Change:
    def change(at: Any, key: Any) -> None:
        at[key], at[neighbour] = at[neighbour], at[key]

    return change


def _put(value: Any) -> Change:
    return lambda at, key: at.__setitem__(key, value)


def _values(value: Any) -> Iterator[tuple[str, Any]]:
    """Other values in its place: of another type, empty, and of its own type and wrong."""
    yield from (("null", None), ("a text", "x"), ("a number", 7), ("a list", [7]), ("an object", {"x": 7}))
    if isinstance(value, bool):
        yield "the other", not value
    elif isinstance(value, int | float):
        yield "below 0", -value - 1
        yield "0", 0
        yield "huge", 2**70
        yield "large", 2**62
        yield "10 % off", round(value * 1.1) + 1
        yield "not whole", value + 0.5
        yield "true", True
        yield "NaN", float("nan")
        yield "as text", str(value)
    elif isinstance(value, str):
        yield "emptied", ""
        yield "another text", f"{value}x"
        if MOMENT.fullmatch(value):
            for kind, days in (("a day later", 1), ("a year earlier", -365)):
                moment = datetime.fromisoformat(value) + timedelta(days=days)
                yield kind, moment.strftime("%Y-%m-%dT%H:%M:%S.") + value[-4:]
        elif any(character.isdigit() for character in value):
            yield from ((kind, one) for kind, change in NUMBERS.items() for one in _each_number(value, change))
    elif isinstance(value, list):
        yield "emptied", []
        yield "doubled", value * 2
    elif isinstance(value, dict):
        yield "emptied", {}
