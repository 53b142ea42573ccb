"""docs/ladder-record.md lists the keys of a ladder and its rungs as they are read; its examples grade as it says.

Run as a program, it writes the tables anew: ``.venv/bin/python tests/docs/test_ladder_record.py``.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.cli import main
from harness.e8.arms import ARMS, REALISM
from harness.e8.grade import judge
from harness.e8.questions import ask_of
from harness.e8.reading import LADDER_FIELDS, SOURCE, parse_ladder
from harness.e8.record import PROFILE_KEYS, RUNG_KEYS, Ladder, Profile, Rung, RungWorker
from harness.e8.verdict import LadderVerdict
from harness.errors import ReportFormatError
from harness.store.schemas import TABLES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/ladder-record.md"
Document = dict[str, Any]

TYPES = {
    "int": "whole number",
    "float": "number",
    "str": "text",
    "bool": "true or false",
    "Mapping[str, str]": "object of texts",
    "Mapping[str, int]": "object of counts",
    "tuple[str, ...]": "list of texts",
    "tuple[RungWorker, ...]": "list of objects, see below",
    "Profile": "object, see below",
}
UNITS = {"_ms_per_turn": "ms", "_ms": "ms", "_s": "s", "_pct": "%", "_tps": "turns/s", "_bytes": "bytes"}
"""End of a field's name → its unit."""
CPU = {"_cpu_s": "CPU time ", "_cpu_util_pct": "CPU used, as a share ", "_cpu_util_box_pct": "CPU used, as a share "}
"""End of a field's name → what the words of its column leave to the name."""
HEAD = "| key | type | unit | is | without it |\n| --- | --- | --- | --- | --- |\n"
WORDS = {
    "ladders": {
        "workers": "workers of the target, W",
        "cores": "cores of the target",
        "profile": "of the model stub, as its /profile tells it",
        "execs_per_turn": "commands in sandboxes per turn, counted before the ladder",
        "rss_budget_bytes": "memory that a worker may use; null: no budget",
    },
    "rungs": {
        "repeat": "1 is the first of its c; in an array their order says it",
        "arm": "of the ladder; the same in every rung",
        "duty_basis": "basis of the ladder; the same in every rung",
        "ended": "all turns, time is up, or rung deadline",
        "refused_429": "turns refused at admission, 429",
        "refused_503": "turns that got no lease, 503",
        "errors_in_200": "turns answered 200 with a stop reason that is an error",
        "timed_out": "turns without a whole answer before their deadline",
        "failed_otherwise": "turns that failed any other way",
        "connections_per_turn": "connections that the client opened per turn",
        "p50_ms": "median latency of successful turns",
        "p95_ms": "p95 of the latency of successful turns, nearest rank",
        "achieved_c": "turns in flight: sum of latencies / wall time",
        "execs_per_turn": "number of commands → turns that ran so many",
        "host_cpu_s": "CPU time of the target's host: all that is neither idle nor waiting for disk",
        "generator_lag_p99_ms": "event-loop lag of the load generator, p99",
        "generator_lag_max_ms": "the longest that the load generator's event loop stood still",
        "sandbox_util_pct": "CPU used, as a share of the pool",
        "worker_cpu_ms_per_turn": "CPU time of the workers per successful turn",
        "worker_tier_cores": "cores that the workers can use: min(W, cores)",
        "lag_resolution_ms": "of the workers' event-loop histogram; the same in every rung",
        "lag_p99_worst_ms": "event-loop lag of the worst worker, where single ones were not recorded",
        "in_flight_median": "the same, its median over the polls",
        "over_admission_total": "turns admitted beyond the cap, since the supervisor began",
        "spurious_refusals_total": "turns refused below the cap, since the supervisor began",
        "over_admission_delta": "the same, in this rung",
        "spurious_refusals_delta": "the same, in this rung",
        "store_connections": "connections of the store, at the end",
        "store_connections_delta": "by how many they grew; may be negative",
        "descriptors": "open descriptors of workers and supervisor, at the end",
        "descriptors_delta": "by how many they grew; may be negative",
        "system": "what was measured, before the rung: name → text; the same in every rung",
        "system_end": "the same, after the rung",
        "workers": "each worker during this rung",
        "why_unknown": "name of a field → why it is null",
    },
    "rung_workers": {
        "pid": "of the worker's process",
        "lag_p99_ms": "event-loop lag; the highest, of other recorders the last",
        "rss_bytes": "memory of the process",
    },
}
"""What is no column of a table, and what its words leave to the table around it."""
REALISM_FACTS = {
    "arm": REALISM,
    "basis": "e6-kind",
    "duty": 0.046,
    "profile": {"ttftMs": 300, "tokenDelayMs": 12, "outputTokens": 64, "toolCallRate": 0.5},
}
"""What the example has of the other arm when it is graded as one of that."""


def examples() -> tuple[list[Document], Document]:
    """The two of the page: an array with the fewest keys, and a ladder with all that it takes."""
    array, ladder = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return json.loads(array), json.loads(ladder)


def graded(document: object) -> LadderVerdict | None:
    """None where the document cannot be read."""
    try:
        ladder = parse_ladder(document)
    except ReportFormatError:
        return None
    return judge("e8-1", ladder, ask_of(ladder))


@cache
def whole(arm: str) -> tuple[str, LadderVerdict]:
    """The example with all of it in either arm, as JSON, and what it is graded as."""
    ladder = examples()[1] | (REALISM_FACTS if arm == REALISM else {})
    verdict = graded(ladder)
    assert verdict is not None and verdict.word == "PASS", verdict
    return json.dumps(ladder), verdict


def without(place: str, key: str) -> str:
    """What becomes of the example when a key is taken out of it, in either arm."""
    found = {arm: _without(arm, place, key) for arm in ARMS}
    if len(set(found.values())) == 1:
        return found[REALISM]
    return ", ".join(f"{said} ({arm})" for arm, said in found.items() if said)


def _without(arm: str, place: str, key: str) -> str:
    text, before = whole(arm)
    ladder = json.loads(text)
    objects = {
        "ladders": [ladder],
        "profile": [ladder["profile"]],
        "rungs": ladder["rungs"],
        "rung_workers": [worker for rung in ladder["rungs"] for worker in rung["workers"]],
    }[place]
    if all(each.pop(key, None) is None for each in objects):
        return ""
    after = graded(ladder)
    if after is None:
        return "not read"
    if after.word != before.word:
        return after.word
    return "" if (after.knee, after.bound) == (before.knee, before.bound) else f"bound: {after.bound}"


def keys(place: str, kind: type, skip: Callable[[str], bool] = lambda _: False) -> str:
    """The table of one object's keys."""
    about = {column.name: column.about or "" for column in TABLES[place].columns}
    about |= WORDS[place]
    table = HEAD
    for each in dataclasses.fields(kind):
        if skip(each.name):
            continue
        key = RUNG_KEYS.get(each.name, each.name) if kind is Rung else each.name
        type_ = str(each.type).removesuffix(" | None")
        unit = next((unit for end, unit in UNITS.items() if each.name.endswith(end)), "")
        meaning = "" if each.name in WORDS[place] else CPU.get(each.name[each.name.find("_cpu_") :], "")
        meaning += re.sub(r";? ?NULL: ", "; null: ", about[each.name])
        table += f"| `{key}` | {TYPES.get(type_, type_)} | {unit} | {meaning} | {without(place, key)} |\n"
    return table


def profile_keys() -> str:
    table = HEAD
    about = {column.name: column.about for column in TABLES["ladders"].columns}
    for name, key in PROFILE_KEYS.items():
        unit = "ms" if name.endswith("_ms") else ""
        table += f"| `{key}` | number | {unit} | {about[name]} | {without('profile', key)} |\n"
    return table


@cache
def blocks() -> Mapping[str, str]:
    """Name of a block → its table."""
    return {
        "ladder": keys("ladders", Ladder, lambda name: name not in LADDER_FIELDS),
        "profile": profile_keys(),
        "rung": keys("rungs", Rung),
        "worker": keys("rung_workers", RungWorker),
    }


def marked(page: str, name: str) -> str:
    found = re.search(f"<!-- {name} -->\n(.*?)<!-- /{name} -->", page, re.DOTALL)
    assert found, f"the page has no block {name}"
    return found[1]


def test_the_page_lists_every_key_as_it_is_read() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, table in blocks().items():
        assert marked(page, name) == table, f"write the page anew: python {Path(__file__).relative_to(ROOT)}"


def test_every_key_is_told_in_words() -> None:
    rows = [line for table in blocks().values() for line in table.splitlines()[2:]]
    assert len(rows) == len(LADDER_FIELDS) + sum(len(dataclasses.fields(kind)) for kind in (Profile, Rung, RungWorker))
    assert [line for line in rows if len(line.split(" | ")[3]) < 9] == []


@pytest.mark.parametrize("number", [0, 1])
def test_an_example_is_adopted_and_graded_as_the_page_says(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is followed by the last line of its grading."""
    said = re.findall(r"```text\n(VERDICT .*?)\n```", PAGE.read_text(encoding="utf-8"))[number]
    (tmp_path / "rungs.json").write_text(json.dumps(examples()[number]))
    runs = str(tmp_path / "runs")
    assert main(["adopt", str(tmp_path / "rungs.json"), "--format", "e8", "--runs", runs]) == 0
    (run,) = (each.name for each in (tmp_path / "runs").iterdir() if not each.name.startswith("."))
    capsys.readouterr()
    code = main(["gate", run, "--runs", runs])
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == said
    assert code == {"PASS": 0, "UNPROVEN": 2}[said.split()[1]]


def test_the_shorter_example_lists_what_it_lacks() -> None:
    verdict = graded(examples()[0])
    assert verdict is not None and verdict.word == "UNPROVEN" and not verdict.refusals
    page = PAGE.read_text(encoding="utf-8")
    assert all(f"- {what}\n" in page for what in verdict.missing), verdict.missing


def test_no_key_of_the_shorter_example_can_be_left_out() -> None:
    array, _ = examples()
    for key in array[0]:
        found = graded([{name: value for name, value in rung.items() if name != key} for rung in array])
        assert found is None or found.word == "REFUSED", key


def test_a_key_that_is_not_listed_is_not_read_in_a_rung_and_refused_in_a_ladder() -> None:
    array, ladder = examples()
    assert parse_ladder([rung | {"bogus": 1} for rung in array]) == parse_ladder(array)
    with pytest.raises(ReportFormatError, match="bogus"):
        parse_ladder(ladder | {"bogus": 1})


def test_the_page_names_the_keys_beside_a_ladder() -> None:
    page = PAGE.read_text(encoding="utf-8")
    beside: Mapping[str, tuple[str, ...]] = {"source": SOURCE}
    assert all(f"`{key}`" in page for key in (*beside, *beside["source"], "schema", "rungs", "loop_lag_p99"))


def write() -> None:
    """Write the tables of the page anew."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in blocks().items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        assert start in text, name
        text = text[: text.index(start) + len(start)] + table + text[text.index(end) :]
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
