"""Gates and views as files. A gate is one ``.sql`` file with a header; its place in the order is its file's name.

-- gate: off_plan                 the rule's id
-- asserts: Every survivor …      one sentence: what holds when every row says PASS
-- cause: driver; why             who answers for a finding (the row's ``cause`` decides)
-- items: cell                    what one row is: run, target, cell, cell × class, target × threshold, roll
-- needs: cells, runs             tables and views it reads
-- reason: failures {}            optional: how the parts of one target's reason are put together
-- between: space                 optional: what stands between them: bar (the default), space, semicolon
-- unmeasured: note               optional: an item that was not measured is a mere note; else the run is UNPROVEN by it

A gate gives one row per planned item, with the columns run, target_no (none: the item is the run's), place, item,
verdict, cause, and of node, class, count, subject, lead, part and tail those it has. The rows are put in order by
target_no, class, place and item. It is run over many runs at once: whatever it joins or groups, it does so by run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from harness.errors import HarnessError
from harness.files import sha256_file, sha256_text
from harness.sqlfiles import sql_files
from harness.store import schemas

HEADER = re.compile(r"-- ([a-z]+): (.*)")
CONTINUED = re.compile(r"--\s{2,}(.*)")
REQUIRED = ("gate", "asserts", "cause", "items", "needs")
OPTIONAL = ("reason", "between", "unmeasured")
UNMEASURED = ("unproven", "note")
SEPARATORS = {"bar": " | ", "space": " ", "semicolon": "; "}


@dataclass(frozen=True)
class Gate:
    """One gate file."""

    rule: str
    asserts: str
    cause: str
    items: tuple[str, ...]
    needs: tuple[str, ...]
    reason: str
    between: str
    unmeasured: str
    sql: str
    path: Path


@dataclass(frozen=True)
class View:
    """One view file; ``name`` is None for a file of functions, whose statements are run as they stand.

    ``about`` is its header's ``-- about: …``, in one line.
    """

    name: str | None
    about: str
    sql: str
    path: Path


def load_gates() -> list[Gate]:
    """Every gate, in order. Raises HarnessError for a file whose header is incomplete or a rule that two files have."""
    gates = [parse_gate(path.read_text(encoding="utf-8"), path) for path in sql_files("gates")]
    rules = [gate.rule for gate in gates]
    if len(set(rules)) != len(rules) or not rules:
        raise HarnessError("sql/gates must hold at least one gate, and each rule once")
    return gates


def parse_gate(text: str, path: Path) -> Gate:
    """One file's text. Raises HarnessError naming the file and the header line at fault."""
    header = _header(text)
    if missing := [key for key in REQUIRED if not header.get(key)]:
        raise HarnessError(f"{path.name}: its header lacks '-- {missing[0]}: …'")
    if unknown := sorted(set(header) - {*REQUIRED, *OPTIONAL}):
        raise HarnessError(f"{path.name}: its header holds an unknown line '-- {unknown[0]}: …'")
    reason, between = header.get("reason", "{}"), header.get("between", "bar")
    if "{}" not in reason or between not in SEPARATORS:
        raise HarnessError(f"{path.name}: reason must hold {{}}, and between be one of {', '.join(SEPARATORS)}")
    unmeasured = header.get("unmeasured", UNMEASURED[0])
    if unmeasured not in UNMEASURED:
        raise HarnessError(f"{path.name}: unmeasured must be one of {', '.join(UNMEASURED)}")
    return Gate(
        rule=header["gate"],
        asserts=header["asserts"],
        cause=header["cause"],
        items=tuple(item.strip() for item in header["items"].split(",")),
        needs=tuple(need.strip() for need in header["needs"].split(",")),
        reason=reason,
        between=SEPARATORS[between],
        unmeasured=unmeasured,
        sql=text,
        path=path,
    )


def _header(text: str) -> dict[str, str]:
    """The ``-- key: value`` lines that open a file; an indented line goes on with the one before it."""
    header: dict[str, str] = {}
    last = ""
    for line in text.splitlines():
        if match := HEADER.fullmatch(line):
            last = match[1]
            header[last] = match[2].strip()
        elif (match := CONTINUED.fullmatch(line)) and last:
            header[last] += " " + match[1].strip()
        else:
            break
    return header


def load_views() -> list[View]:
    """Every view, in the order they build on each other; ``NN_functions.sql`` holds statements, not a view."""
    views = []
    for path in sql_files("views"):
        name = path.stem.partition("_")[2]
        text = path.read_text(encoding="utf-8")
        views.append(View(None if name == "functions" else name, _header(text).get("about", ""), text, path))
    return views


def files() -> list[Path]:
    """Every file whose change must grade a run again: the SQL, the code that runs it, and the schemas it reads."""
    package = Path(__file__).parent
    code = [*sorted(package.glob("*.py")), package.parent / "sqlfiles.py", package.parent / "store" / "database.py"]
    sql = [path for folder in ("views", "gates", "verdict") for path in sql_files(folder)]
    return [*sql, *code, Path(schemas.__file__)]


def digest() -> str:
    """SHA-256 over the names and contents of ``files()``."""
    return sha256_text("".join(f"{sha256_file(path)}  {path.parent.name}/{path.name}\n" for path in files()))
