"""Published totals: nothing is made up, nothing is left out by oversight, and they stand beside our own runs."""

from __future__ import annotations

import contextlib
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli import main
from harness.errors import UsageError
from harness.history.database import ask, open_database, run_roots
from harness.history.published import FIELDS, REQUIRED, published_files, read_published
from harness.history.queries import named_queries
from tests.report import made

UNKNOWN = ["totals.sent", "totals.failures", "totals.worst_p50_ms", "window.ended", "verdict"]
DOCUMENT: dict[str, Any] = {
    "schema": 1,
    "run": "soak-2026",
    "source": {"title": "a record", "where": "chapter 3"},
    "kind": "soak",
    "plan": {
        "profile": "soak",
        "duration_s": 60,
        "backends": 2,
        "rate_rps": 12,
        "targets": {"svc-1": 9, "uds-echo": 3},
        "rolls": 0,
    },
    "totals": {
        "planned": 1440,
        "sent": None,
        "http_2xx": 1400,
        "failures": None,
        "lost_backends": 0,
        "worst_p50_ms": None,
        "worst_p99_ms": 2.5,
        "worst_max_ms": 9,
    },
    "window": {"dispatched": "2026-10-08T02:01:51.550Z", "ended": None},
    "verdict": None,
    "unknown": UNKNOWN,
}
PLACES = [field.split(".") for field in FIELDS]


def save(runs: Path, document: Any, name: str = "soak-2026.json") -> Path:
    (runs / "published").mkdir(parents=True, exist_ok=True)
    path = runs / "published" / name
    path.write_text(json.dumps(document))
    return path


def changed(place: list[str], value: Any) -> dict[str, Any]:
    """The document with another value at a place, and a null there named."""
    document = deepcopy(DOCUMENT)
    (document[place[0]] if len(place) == 2 else document)[place[-1]] = value
    unknown = {*UNKNOWN, *([".".join(place)] if value is None else [])}
    return {**document, "unknown": [name for name in FIELDS if name in unknown]}


def answer(runs: Path, name: str, **given: str) -> list[dict[str, Any]]:
    query = named_queries("history")[name]
    with open_database(run_roots(runs), query.sql, published=published_files(runs)) as opened:
        columns, rows = ask(opened, query.sql, query.bind(given))
        assert opened.left_out == []
    return [dict(zip(columns, row, strict=True)) for row in rows]


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run of our own by the same plan, and the published totals."""
    tables = made.clean_tables({"svc-1": 9, "uds-echo": 3}, ("node-a", "node-b"))
    made.save_run(tmp_path, "quick-1", tables, None)
    save(tmp_path, DOCUMENT)
    return tmp_path


def test_published_totals_stand_below_our_own_and_unknown_is_null(runs: Path) -> None:
    own, published = answer(runs, "run-by-run")
    assert (own["run"], own["origin"], own["failures"]) == ("quick-1", "tables", "none")
    assert [published[key] for key in ("run", "origin", "profile", "planned", "http_2xx", "worst_p99_ms")] == [
        "soak-2026", "published", "soak", 1440, 1400, 2.5,
    ]  # fmt: skip
    assert published["dispatched"].isoformat() == "2026-10-08T02:01:51.550000"
    assert {key for key, value in published.items() if value is None} == {
        "fleet", "drill", "sent_by_returned", "failures", "worst_p50_ms", "ended", "verdict", "reason",
    }  # fmt: skip


def test_a_comparison_with_published_totals_has_one_row_that_both_have_and_says_so(runs: Path) -> None:
    rows = {row["target"]: row for row in answer(runs, "compare", run="quick-1", base="soak-2026")}
    assert list(rows) == ["svc-1", "uds-echo", "all targets"]
    assert (rows["svc-1"]["base_http_2xx"], rows["svc-1"]["base_p99_ms"]) == (None, None)
    both = rows["all targets"]
    assert (both["http_2xx"], both["planned"], both["base_http_2xx"], both["base_planned"]) == (1440, 1440, 1400, 1440)
    assert both["unlike"] == (
        "soak-2026 is published totals; verdict not known beside not known; profile quick and soak; fleet local and ?"
    )
    assert (both["base_p50_ms"], both["base_p99_ms"]) == (None, 2.5)


def test_what_a_source_does_say_is_shown(runs: Path) -> None:
    save(runs, changed(["totals", "failures"], {"http_5xx": 3, "http_4xx": 0}) | {"unknown": UNKNOWN[:1] + UNKNOWN[2:]})
    assert answer(runs, "run-by-run")[1]["failures"] == "http_4xx 0, http_5xx 3"


def test_a_run_that_is_here_itself_is_not_told_of_twice(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save(runs, {**DOCUMENT, "run": "quick-1"}, "quick-1.json")
    words = ["sql", "SELECT run FROM published", "--runs", str(runs), "--format", "csv"]
    assert main(words) == 0
    output, error = capsys.readouterr()
    assert output == "run\nsoak-2026\n"
    assert error.count("\n") == 1 and "run quick-1 is there itself" in error


def test_a_bad_file_is_named_and_the_rest_answers(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (runs / "published" / "torn.json").write_text('{"schema": 1')
    assert main(["sql", "run-by-run", "--runs", str(runs), "--format", "csv"]) == 0
    output, error = capsys.readouterr()
    assert "soak-2026,published" in output
    assert error.count("\n") == 1 and "torn.json: cannot be read as JSON" in error


def test_a_published_run_can_be_named_and_one_that_is_not_there_cannot(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sql", "compare", "--param", "run=quick-1", "--runs", str(runs), "--param"]
    assert main([*words, "base=soak-2026"]) == 0
    assert main([*words, "base=soak-2027"]) == 3
    assert "there is no run soak-2027" in capsys.readouterr().err


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_every_field_must_be_there(tmp_path: Path, place: list[str]) -> None:
    document = deepcopy(DOCUMENT)
    del (document[place[0]] if len(place) == 2 else document)[place[-1]]
    with pytest.raises(UsageError, match=rf"{'.'.join(place)} is missing"):
        read_published(save(tmp_path, document))


@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_field_may_be_null_where_it_is_named_unknown_unless_it_says_what_the_run_is(
    tmp_path: Path, place: list[str]
) -> None:
    path = save(tmp_path, changed(place, None))
    if ".".join(place) in REQUIRED:
        with pytest.raises(UsageError, match="must be said"):
            read_published(path)
    else:
        assert ".".join(place) in read_published(path).unknown
    save(tmp_path, changed(place, None) | {"unknown": []})
    with pytest.raises(UsageError, match=r"must be said|unknown must name every null"):
        read_published(path)


@pytest.mark.parametrize("value", [-1, True, "", "a\nb", [], {"x": -1}, {"": 1}])
@pytest.mark.parametrize("place", PLACES, ids=".".join)
def test_a_value_that_no_field_can_have_is_refused(tmp_path: Path, place: list[str], value: Any) -> None:
    with pytest.raises(UsageError, match=f"{'.'.join(place)} must be"):
        read_published(save(tmp_path, changed(place, value)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("totals.sent", 1.5),
        ("totals.sent", 2**63),
        ("plan.targets", {"svc-1": 1.5}),
        ("window.ended", "2026-10-08T02:01:51"),
        ("window.ended", "2026-10-08T02:01:51+02:00"),
        ("verdict", "pass"),
    ],
)
def test_a_value_that_this_field_cannot_have_is_refused(tmp_path: Path, field: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{field} must be"):
        read_published(save(tmp_path, changed(field.split("."), value)))


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (changed(["totals", "planned"], 1441), "not rate × duration × backends"),
        (changed(["plan", "targets"], {"svc-1": 9}), "add up to 9 rps"),
        (DOCUMENT | {"schema": 2}, "schema must be 1"),
        (DOCUMENT | {"run": "other"}, "name of the file"),
        (DOCUMENT | {"p99": 3}, "p99 is no field"),
        (DOCUMENT | {"unknown": [*UNKNOWN, "kind"]}, "unknown must name every null"),
        ([DOCUMENT], "no JSON object"),
        (DOCUMENT | {"plan": None}, "plan is no field"),
    ],
)
def test_what_does_not_agree_with_itself_is_refused(tmp_path: Path, document: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_published(save(tmp_path, document))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.sampled_from([*DOCUMENT]), inner),
    max_leaves=8,
)


@given(place=st.sampled_from([*PLACES, ["source"], ["plan"], ["unknown"], ["run"], ["extra"]]), value=JSON)
def test_any_document_is_a_published_run_or_a_refusal(
    tmp_path_factory: pytest.TempPathFactory, place: list[str], value: Any
) -> None:
    document = deepcopy(DOCUMENT)
    (document[place[0]] if len(place) == 2 else document)[place[-1]] = value
    path = save(tmp_path_factory.getbasetemp() / "any", document)
    with contextlib.suppress(UsageError):
        assert set(read_published(path).values) == set(FIELDS)
