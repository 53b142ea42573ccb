"""What a result file really is, whatever it is called: formats that hide failures are refused by their content."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from harness.errors import EvidenceError
from harness.store import readers
from harness.store.formats.cells import CellFile
from harness.store.formats.yaml_tree import parse_yaml

_ASK_NIGHTHAWK = "save nighthawk's own output with --output-format json"
_ASK_K6 = "save k6's --summary-export, or the data that handleSummary() is given"

# Format → why no verdict can be made from it, and what to do.
REFUSED = {
    "fortio": f"counts only 2xx answers, so a run in which all else failed reads as clean; {_ASK_NIGHTHAWK}",
    "human": "is text for people, cut to microseconds, that says neither how long it ran nor what it was asked to do; "
    f"{_ASK_NIGHTHAWK}",
    "csv": f"is text for people, with commas, that says neither how long it ran nor what it was asked to do; "
    f"{_ASK_NIGHTHAWK}",
    "dotted": f"does not say how long it ran, so no count can be held against a plan; {_ASK_NIGHTHAWK}",
    "prometheus": f"does not say how long it ran, so no count can be held against a plan; {_ASK_NIGHTHAWK}",
    "k6 text": f"is text for people, with rounded numbers; {_ASK_K6}",
    "k6 sample": f"holds single samples, not a summary of them; {_ASK_K6}",
    "k6 machine-readable": f"is a form that is not read here; {_ASK_K6}",
    "sortie": "is a report of all targets and nodes; take the directory as --format sortie",
}
ALIASES = {"experimental_fortio_pedantic": "fortio"}

_FORTIO_KEYS = frozenset({"DurationHistogram", "RetCodes", "RequestedQPS", "ActualQPS"})
_TEXTS = (
    ("prometheus", re.compile(r"^(?:# (?:TYPE|HELP) )?nighthawk_\w+[ {]", re.MULTILINE)),
    ("dotted", re.compile(r"^\w+\.[\w.-]*(?:\.permilles-\d+\.\w+|\.samples|\.mean): ", re.MULTILINE)),
    ("csv", re.compile(r"^Percentile, *Count|^Counter, *Value|\d+ samples\)?,", re.MULTILINE)),
    ("human", re.compile(r"^Nighthawk - A layer 7|\(\d+ samples\)|^Counter +Value", re.MULTILINE)),
    ("k6 sample", re.compile(r'^\{.*"type": *"(?:Metric|Point)"|^metric_name,timestamp,', re.MULTILINE)),
    ("k6 text", re.compile(r"^ *(?:[✓✗] )?http_reqs\.*:", re.MULTILINE)),
)


def refuse(name: str) -> str | None:
    """Why runs in the format ``name`` cannot be graded, in one sentence; None when nothing is known against it."""
    reason = REFUSED.get(ALIASES.get(name, name)) if name != "sortie" else None
    return f"{name} output cannot be graded: it {reason}" if reason else None


def parse(path: Path, content: str) -> Any:
    """The tree of a file: YAML where its name says so, else JSON. Raises ValueError."""
    return parse_yaml(content) if path.suffix == ".yaml" else readers.parse_json(content)


def tool_of(tree: object) -> str | None:
    """The format of a parsed result file that is read here, by what no other holds; None: it is in none of them."""
    if isinstance(tree, dict):
        if isinstance(tree.get("results"), list) and "options" in tree:
            return "nighthawk"
        if isinstance(tree.get("metrics"), dict):
            return "k6"
    return None


def not_output_of(tool: str, file: CellFile, tree: object, text: str, reason: str | None = None) -> EvidenceError:
    """The error for a file that is not output of ``tool``: it names what the file is, as far as that is known.

    ``tree`` is the parsed file, None when it does not parse, for ``reason``; ``text`` is all of it.
    """
    found = _mistaken(tree, text)
    if found:
        return file.refuse(f"is {found} output: it {REFUSED[found]}")
    if other := tool_of(tree):
        return file.refuse(f"is not output of {tool} but of {other}: take the directory as --format {other}")
    if reason:
        return file.refuse(f"is not {file.path.suffix[1:].upper()} ({readers.one_line(reason)[:120]}); copy it again")
    return file.refuse(f"is not output of {tool}; save {tool}'s own result under this name")


def _mistaken(tree: object, text: str) -> str | None:
    if isinstance(tree, dict):
        if tree.keys() & _FORTIO_KEYS:
            return "fortio"
        if "executions" in tree:
            return "sortie"
        if "results" in tree and tree.keys() & {"metadata", "config"}:
            return "k6 machine-readable"
    return next((name for name, pattern in _TEXTS if pattern.search(text)), None)
