"""Strategies of hypothesis: runs that are damaged anyhow, and runs in which one thing that is graded is false."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from tests.gate.clean_run import DURATION_S, clean_run

CLEAN = clean_run()


class Files(dict[str, bytes]):
    """A run's files; shown by what is not as in the clean run."""

    def __repr__(self) -> str:
        changed = {name: content for name, content in self.items() if CLEAN.get(name) != content}
        return f"Files(absent: {sorted(CLEAN.keys() - self.keys())}, changed: {changed})"


REPORT = json.loads(CLEAN["report.json"])
EXECUTION, RESULT = REPORT["executions"][0], REPORT["executions"][0]["results"][0]
KNOWN = sorted(
    {*REPORT, *EXECUTION, *RESULT, *EXECUTION["thresholds"][0], *RESULT["counters"], *RESULT["statistics"]}
    | {"error", "backend_errors", "failures", "not_run", "refused", "harness", "planned", "released", "ramp_time_ms"}
)

ODD_TEXTS = (
    "", "mesh/cart", "10.30.1.11:8443", "execution_cap", "0", "true", "NaN", "\ud800", "\x00", "a\nPASS  b", "1e999",
    "2026-11-01T06:08:09.250Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z", "counter:x == 0", "x.p99 < 1s",
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=12), st.sampled_from(ODD_TEXTS))
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(0, 100_000), st.floats(), TEXTS
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(KNOWN), TEXTS), inner, max_size=4)
    ),
    max_leaves=8,
)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(0, 100_000), st.sampled_from(ODD_TEXTS), TREES)


# any damage: a verdict or one sentence


@st.composite
def reports(draw: st.DrawFn) -> bytes:
    """A report, or what was one: places changed, keys added, bytes cut."""
    report = json.loads(CLEAN["report.json"])
    for _ in range(draw(st.integers(1, 3))):
        parent, key = draw(st.sampled_from(list(places(report))))
        match draw(st.sampled_from(["set", "delete", "add", "double"])):
            case "set":
                parent[key] = draw(VALUES)
            case "delete":
                del parent[key]
            case "add" if isinstance(parent, dict):
                parent[draw(st.sampled_from(KNOWN))] = draw(VALUES)
            case "double" if isinstance(parent, list):
                parent.insert(key, parent[key])
            case _:
                parent[key] = 0
        if not list(places(report)):
            break
    return torn(draw, json.dumps(report).encode())


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a document."""
    children = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, child in children:
        yield value, key
        yield from places(child)


def torn(draw: st.DrawFn, content: bytes) -> bytes:
    """Now and then a piece of it is lost, or other bytes stand in it."""
    if draw(st.integers(0, 5)):
        return content
    at = draw(st.integers(0, len(content)))
    return content[:at] + draw(st.binary(max_size=6)) + content[draw(st.integers(at, len(content))) :]


@st.composite
def texts(draw: st.DrawFn, file: str) -> bytes:
    """A file of lines: lines lost, doubled, moved, other text in them, bytes cut."""
    lines = CLEAN[file].decode().splitlines()
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(lines)))
        fresh = draw(st.one_of(st.text(max_size=30), st.sampled_from(lines or [""]), NEAR_LINES))
        lines[at : at + draw(st.integers(0, 2))] = [fresh] * draw(st.integers(0, 2))
    return torn(draw, "\n".join([*lines, ""]).encode("utf-8", "surrogatepass"))


SETTINGS = st.sampled_from(["BACKENDS", "DURATION_S", "RUN_TAG", "X"])
YAML_KEYS = st.sampled_from(["scenarios", "    executor", "      - name", "&a", "? ", "thresholds"])
NEAR_LINES = st.one_of(
    st.builds("{}={}".format, SETTINGS, TEXTS),
    st.builds("{}\t{}\t{}".format, TEXTS, TEXTS, TEXTS),
    st.builds("{}: {}".format, YAML_KEYS, TEXTS),
    st.builds("  FAIL {} (scenario mesh, 1s)".format, TEXTS),
    st.builds("PASS  {}/{} executions passed, {} not run".format, TEXTS, TEXTS, TEXTS),
    st.builds("2026-11-01T06:10:10.200Z ROLLED {}/{} at_s={}".format, TEXTS, TEXTS, TEXTS),
    st.builds("{}SKIP {}".format, st.sampled_from(["", "  ", "\t"]), TEXTS),
)


@st.composite
def damaged_runs(draw: st.DrawFn) -> Files:
    """The clean run with other content in some of its files, or without some."""
    files = Files(CLEAN)
    for name in draw(st.lists(st.sampled_from([*["report.json"] * 5, *sorted(files)]), max_size=3, unique=True)):
        damage = draw(st.integers(0, 11))
        if damage == 0:
            del files[name]
        elif damage == 1:
            files[name] = draw(st.one_of(st.binary(max_size=60), TREES.map(lambda tree: json.dumps(tree).encode())))
        else:
            files[name] = draw(reports() if name == "report.json" else texts(name))
    return files


# one row that carries weight is another: never a PASS


@st.composite
def falsified_runs(draw: st.DrawFn) -> Files:
    """One thing that the verdict rests on says something else; with or without the stream, which says it too."""
    files = Files(CLEAN)
    if draw(st.booleans()):
        del files["results.jsonl"]
    name, content = draw(st.one_of(falsified_reports(), falsified_tables()))
    files[name] = content
    return files


WEIGHED = ("label", "rate", "duration_ms", "elapsed_ms", "started_at", "pass", "backends", "thresholds", "results")
WEIGHED_RESULT = ("backend", "elapsed_ms", "counters")
WEIGHED_THRESHOLD = ("expr", "pass")
ADDED = ("error", "refused", "backend_errors", "failures", "not_run")
ADDED_COUNTERS = ("benchmark.http_5xx", "benchmark.x")
WAYS = ("execution", "result", "counter", "threshold", "backend", "another entry", "another key", "deleted")
NOTHING: tuple[Any, ...] = (None, False, 0, [], {})


@st.composite
def falsified_reports(draw: st.DrawFn) -> tuple[str, bytes]:
    """The report with one graded value another, one entry more, or one key more or less."""
    report = json.loads(CLEAN["report.json"])
    execution = draw(st.sampled_from(report["executions"]))
    result = draw(st.sampled_from(execution["results"]))
    threshold = draw(st.sampled_from(execution["thresholds"]))
    value = draw(VALUES)
    match draw(st.sampled_from(WAYS)):
        case "execution":
            put(execution, draw(st.sampled_from(WEIGHED)), value)
        case "result":
            put(result, draw(st.sampled_from(WEIGHED_RESULT)), value)
        case "counter":
            put(result["counters"], draw(st.sampled_from([*result["counters"], *ADDED_COUNTERS])), value)
        case "threshold":
            put(threshold, draw(st.sampled_from(WEIGHED_THRESHOLD)), value)
        case "backend":
            put(execution["backends"], draw(st.integers(0, 2)), value)
        case "another entry":
            lists = [report["executions"], *(execution[key] for key in ("backends", "thresholds", "results"))]
            draw(st.sampled_from(lists)).append(value)
        case "another key":
            put(execution, draw(st.sampled_from(ADDED)), value)
        case "deleted":
            graded = [(execution, WEIGHED), (result, WEIGHED_RESULT), (threshold, WEIGHED_THRESHOLD)]
            place, keys = draw(st.sampled_from(graded))
            del place[draw(st.sampled_from([key for key in keys if key != "rate"]))]
    return "report.json", json.dumps(report).encode()


def put(place: Any, key: Any, value: Any) -> None:
    """Another value there: not the same once more, not nothing where nothing was, not one within the tolerance."""
    before = place.get(key) if isinstance(place, dict) else place[key]
    same = value == before and isinstance(value, bool) == isinstance(before, bool)
    nothing = before is None and value in NOTHING and value is not True
    own_time = key == "elapsed_ms" and "backend" in place and isinstance(value, int | float)
    close = own_time and abs(value - DURATION_S * 1000) <= DURATION_S * 50
    tells_less = key == "rate" and value is None
    place[key] = "another" if same or nothing or close or tells_less else value


@st.composite
def falsified_tables(draw: st.DrawFn) -> tuple[str, bytes]:
    """A table, or the two settings that are graded: another value in one field."""
    name = draw(st.sampled_from(["run.env", "shares.tsv", "engines.tsv", "schedule.tsv"]))
    between = "=" if name == "run.env" else "\t"
    lines = CLEAN[name].decode().splitlines()
    graded = [n for n, line in enumerate(lines) if name != "run.env" or line.startswith(("BACKENDS", "DURATION_S"))]
    at = draw(st.sampled_from(graded))
    fields = lines[at].split(between)
    column = draw(st.sampled_from({"run.env": [1], "engines.tsv": [0], "schedule.tsv": [1, 2]}.get(name, [0, 1, 2])))
    value = draw(st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]), max_size=12))
    fields[column] = value if value.strip() and value != fields[column] else "another"
    lines[at] = between.join(fields)
    return name, "".join(f"{line}\n" for line in lines).encode()
