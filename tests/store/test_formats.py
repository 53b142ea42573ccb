"""Readers of other load generators' files: any content gives rows or one sentence, and numbers stay what they are."""

from __future__ import annotations

import json
import math
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from harness.errors import EvidenceError
from harness.gate import grade
from harness.store import formats
from harness.store.formats.cells import Cell, CellFile
from harness.store.formats.one_load import hold_together
from harness.store.formats.yaml_tree import parse_yaml
from harness.store.ingest import build_tables
from harness.store.report_rows import ReportRows, choose_source, report_rows
from harness.store.stated import Stated
from tests.store.foreign import (
    LATENCY_2XX,
    k6_export,
    k6_metrics,
    k6_summary,
    mark,
    native,
    seconds,
    statistic,
    write_plan,
)

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
INT64_MAX = 2**63 - 1
FILES = {
    "nighthawk": ("cart@node-a.json", "cart@node-a.yaml"),
    "k6": ("cart@node-a.json", "summary@node-a.json"),
}


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A directory with a plan of one target on one node, and no result file yet."""
    write_plan(tmp_path / "evidence", shares={"cart": 9}, engines={"node-a": "10.0.0.1"})
    return tmp_path / "evidence"


def rows(evidence: Path, format_name: str, files: dict[str, str | bytes], engine: str = "upstream") -> ReportRows:
    """Rows of a directory that holds these result files and no others."""
    for old in evidence.glob("*@*"):
        old.unlink()
    for name, content in files.items():
        (evidence / name).write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
    mark(evidence, format_name, engine)
    return report_rows(choose_source(evidence, stream=False, scenario="mesh"), {"10.0.0.1": "node-a"}, Stated())


def read_or_refuse(evidence: Path, format_name: str, name: str, content: str | bytes) -> ReportRows | None:
    """Rows, or None after a refusal, which is one line that names the file."""
    try:
        return rows(evidence, format_name, {name: content})
    except EvidenceError as error:
        assert "\n" not in str(error)
        assert str(error).startswith(name), str(error)
        str(error).encode()
        return None


@QUICK
@given(content=st.one_of(st.binary(max_size=200), st.text(alphabet="ab@:-&*!{}[]\"'\n \t#,|>%~0\x00é", max_size=120)))
def test_any_bytes_are_read_or_refused_in_one_sentence(evidence: Path, content: str | bytes) -> None:
    """Whatever a file holds, there is no traceback, and nothing that is none is taken for a result."""
    for format_name, names in FILES.items():
        for name in names:
            assert read_or_refuse(evidence, format_name, name, content) is None


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 2**70), st.floats(), st.text(max_size=6),
    st.sampled_from(["150s", "1.5s", "-1s", "NaN", "18446744073709551615", "2026-03-04T05:06:07Z", "global", "\ud800"]),
)  # fmt: skip
KEYS = st.sampled_from(
    ["options", "results", "name", "counters", "value", "statistics", "id", "count", "percentiles", "percentile",
     "duration", "raw_value", "mean", "raw_mean", "raw_min", "execution_duration", "execution_start", "concurrency",
     "requests_per_second", "uri", "open_loop", "failure_predicates", "request_options", "request_headers", "header",
     "key", "metrics", "http_reqs", "http_req_failed", "http_req_duration", "dropped_iterations", "checks", "values",
     "rate", "passes", "fails", "thresholds", "ok", "state", "testRunDurationMs", "http_reqs{target:cart}", "p(99)",
     "avg", "sequencer.failed_terminations"]
)  # fmt: skip
TREES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)


def replaced(tree: Any, place: int, value: Any) -> tuple[Any, int]:
    """``tree`` with its node number ``place`` (in document order) replaced, and how many nodes are left to skip."""
    if place == 0:
        return value, -1
    place -= 1
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    changed = dict(tree) if isinstance(tree, dict) else list(tree) if isinstance(tree, list) else tree
    for key, entry in entries:
        if place < 0:
            break
        changed[key], place = replaced(entry, place, value)
    return changed, place


def nodes(tree: Any) -> int:
    """How many nodes a tree has."""
    inner = tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ()
    return 1 + sum(nodes(entry) for entry in inner)


@settings(QUICK, max_examples=200)
@given(data=st.data())
def test_any_part_replaced_by_anything_is_read_or_refused(evidence: Path, data: st.DataObject) -> None:
    """A real file in which one node is another: rows or one sentence that names the file."""
    metrics = k6_metrics(1350)
    metrics |= {f"{name}{{target:cart}}": metric for name, metric in metrics.items()}
    format_name, name, tree = data.draw(
        st.sampled_from(
            [
                ("nighthawk", "cart@node-a.json", native(workers=3)),
                ("nighthawk", "cart@node-a.yaml", native()),
                ("k6", "cart@node-a.json", k6_export(metrics)),
                ("k6", "summary@node-a.json", k6_summary(metrics)),
            ]
        )
    )
    damaged, _ = replaced(tree, data.draw(st.integers(0, nodes(tree) - 1)), data.draw(TREES))
    content = yaml.safe_dump(damaged, allow_unicode=True) if name.endswith(".yaml") else json.dumps(damaged)
    read_or_refuse(evidence, format_name, name, content)


@settings(QUICK, max_examples=40)
@given(data=st.data())
def test_a_byte_changed_cut_or_put_in_is_a_verdict_or_a_refusal(
    evidence: Path, tmp_path: Path, data: st.DataObject
) -> None:
    """Through the tables and the gate: half a file never passes, and nothing is a traceback."""
    tree = native(statistics=[statistic(LATENCY_2XX, 1350, 2_100_000)])
    format_name, name, text = data.draw(
        st.sampled_from(
            [
                ("nighthawk", "cart@node-a.json", json.dumps(tree)),
                ("nighthawk", "cart@node-a.yaml", yaml.safe_dump(tree)),
                ("k6", "cart@node-a.json", json.dumps(k6_summary(k6_metrics(1350)))),
            ]
        )
    )
    content = bytearray(text.encode())
    place = data.draw(st.integers(0, len(content) - 1))
    how = data.draw(st.sampled_from(["change", "cut", "insert"]))
    match how:
        case "change":
            content[place] = data.draw(st.integers(0, 255))
        case "cut":
            del content[place:]
        case _:
            content[place:place] = data.draw(st.binary(min_size=1, max_size=9))
    for old in evidence.glob("*@*"):
        old.unlink()
    (evidence / name).write_bytes(content)
    mark(evidence, format_name)
    try:
        build_tables(evidence, tmp_path / "tables", run="r")
    except EvidenceError as error:
        assert "\n" not in str(error)
        return
    verdict = grade(tmp_path / "tables")
    assert verdict.word != "PASS", "what was never counted is not known to be none"


@QUICK
@given(
    moved=st.dictionaries(
        st.sampled_from([f"benchmark.http_{status}" for status in ("2xx", "4xx", "5xx", "xxx")]),
        st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([INT64_MAX, INT64_MAX + 1, 2**64 - 1])),
        min_size=1,
    ),
    form=st.sampled_from([".json", ".yaml"]),
)
def test_a_count_is_kept_to_the_last_digit_or_called_bad(evidence: Path, moved: dict[str, int], form: str) -> None:
    """uint64 as text, up to 2^64 - 1: what an int64 holds is kept, what it does not is no count; nothing is wrapped."""
    tree = native(counters=moved, statistics=[])
    content = json.dumps(tree) if form == ".json" else yaml.safe_dump(tree)
    found = rows(evidence, "nighthawk", {f"cart@node-a{form}": content})
    assert {row["counter"]: row["value"] for row in found.counters} == {
        name: value if value <= INT64_MAX else None for name, value in moved.items()
    }
    beyond = [name for name, value in moved.items() if value > INT64_MAX]
    told = found.backends[0]["bad_counters"]
    assert (told is None) == (not beyond)
    assert told is None or told in {f"{name} is {moved[name]}" for name in beyond}


@QUICK
@given(ns=st.integers(0, 10**18))
def test_a_duration_is_kept_to_the_nanosecond(evidence: Path, ns: int) -> None:
    """Seconds as text, with 0, 3, 6 or 9 decimals."""
    found = rows(evidence, "nighthawk", {"cart@node-a.json": json.dumps(native(elapsed_ns=ns, statistics=[]))})
    assert found.backends[0]["elapsed_ms"] == ns // 1_000_000
    entry = {"id": "some", "count": "1", "mean": seconds(ns), "percentiles": []}
    found = rows(evidence, "nighthawk", {"cart@node-a.json": json.dumps(native(statistics=[entry]))})
    assert found.statistics[0]["mean"] == float(ns)


@QUICK
@given(ladder=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 10**12)), max_size=12))
def test_a_percentile_is_the_first_bucket_at_or_above(evidence: Path, ladder: list[tuple[float, int]]) -> None:
    """Whatever the steps are; where none reaches the fraction, there is no percentile."""
    ladder = sorted(dict(ladder).items())
    buckets = [{"percentile": fraction, "count": "1", "duration": seconds(ns)} for fraction, ns in ladder]
    entry = {"id": "some", "count": "9", "percentiles": buckets}
    found = rows(evidence, "nighthawk", {"cart@node-a.json": json.dumps(native(statistics=[entry]))}).statistics[0]
    for key, asked in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99_9", 0.999)):
        reached = [ns for fraction, ns in ladder if fraction >= asked]
        assert found[key] == (reached[0] if reached else None)


@QUICK
@given(counts=st.lists(st.integers(0, 10**6), min_size=3, max_size=3))
def test_workers_are_never_added_to_the_global_result(evidence: Path, counts: list[int]) -> None:
    """Whatever they say: the rows are those of the file without them."""
    tree = native(workers=3)
    for worker, count in zip(tree["results"], counts, strict=False):
        worker["counters"] = [{"name": "benchmark.http_2xx", "value": str(count)}]
    whole = rows(evidence, "nighthawk", {"cart@node-a.json": json.dumps(tree)})
    tree["results"] = tree["results"][-1:]
    assert rows(evidence, "nighthawk", {"cart@node-a.json": json.dumps(tree)}) == whole


@QUICK
@given(requests=st.integers(1, INT64_MAX), failed=st.integers(0, INT64_MAX))
def test_what_k6_calls_passes_is_what_failed(evidence: Path, requests: int, failed: int) -> None:
    """In both forms of its summary, for any counts."""
    assume(failed <= requests)
    metrics = k6_metrics(requests, failed=failed)
    for tree in (k6_export(metrics), k6_summary(metrics)):
        found = rows(evidence, "k6", {"cart@node-a.json": json.dumps(tree)})
        counters = {row["counter"]: row["value"] for row in found.counters}
        assert counters["k6.http_reqs"] == requests
        assert counters["k6.http_req_failed"] == failed
        assert not any(name.startswith("benchmark.") for name in counters)


@QUICK
@given(requests=st.integers(1, 10**9), ran_ms=st.integers(1, 10**9))
def test_how_long_k6_ran_is_requests_by_rate(evidence: Path, requests: int, ran_ms: int) -> None:
    """The summary of ``--summary-export`` does not say it."""
    tree = k6_export(k6_metrics(requests))
    tree["metrics"]["http_reqs"]["rate"] = requests / (ran_ms / 1000)
    found = rows(evidence, "k6", {"cart@node-a.json": json.dumps(tree)})
    assert math.isclose(found.backends[0]["elapsed_ms"], ran_ms, abs_tol=1)


@QUICK
@given(tree=TREES)
def test_yaml_is_a_tree_of_text(tree: Any) -> None:
    """Keys and places are those of the tree; a scalar is the text that stands there."""

    def texts(value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): texts(entry) for key, entry in value.items()}
        return [texts(entry) for entry in value] if isinstance(value, list) else type(value)

    def shape(value: Any, like: Any) -> Any:
        if isinstance(value, dict):
            return {key: shape(entry, like[key]) for key, entry in value.items()}
        if isinstance(value, list):
            return [shape(entry, other) for entry, other in zip(value, like, strict=True)]
        assert value is None or isinstance(value, str)
        return type(like)

    class Written(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    content = yaml.dump(tree, Dumper=Written)
    assume("\\uD800" not in content)  # half a character: no YAML
    assert shape(parse_yaml(content), tree) == texts(tree)


@pytest.mark.parametrize(
    "content",
    ["a: 1\n---\na: 1\n", "? [a]\n: 1\n", "? \n: 1\n", "a: *b\n", "[" * 3000, "- " * 3000 + "a", "a: '", "\x00"],
)
def test_yaml_that_is_no_single_tree_is_refused(content: str) -> None:
    with pytest.raises(ValueError):
        parse_yaml(content)


@QUICK
@given(starts=st.lists(st.integers(0, 400), min_size=1, max_size=5))
def test_files_are_of_one_load_only_if_all_of_them_overlap(starts: list[int]) -> None:
    """Whatever their order: the last one must have begun while the first still ran."""
    began = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    cells = [
        Cell(
            CellFile(Path(os.devnull), "cart", f"node-{number}"),
            "cart",
            {"counters": {}, "statistics": {}, "started_at": (began + timedelta(seconds=start)).isoformat()},
        )
        for number, start in enumerate(starts)
    ]
    if max(starts) - min(starts) < 150:
        hold_together(cells, 150_000)
    else:
        with pytest.raises(EvidenceError, match="one load of 150 s does not hold both"):
            hold_together(cells, 150_000)


@pytest.mark.parametrize("name", ["fortio", "experimental_fortio_pedantic", "human", "csv", "dotted", "prometheus"])
def test_formats_that_cannot_be_graded_say_why(name: str, evidence: Path) -> None:
    """One sentence, by name alone; what can be graded has none."""
    reason = formats.refuse(name)
    assert reason is not None
    assert reason.startswith(f"{name} output cannot be graded: it ")
    assert "\n" not in reason
    with pytest.raises(EvidenceError) as refusal:
        formats.check(evidence, name)
    assert str(refusal.value) == reason
    assert [formats.refuse(known) for known in (*formats.FORMATS, "sortie", "other")] == [None] * 4


def test_an_unknown_format_is_told_which_there_are(evidence: Path) -> None:
    with pytest.raises(EvidenceError, match="no format 'other'; there are nighthawk, k6"):
        formats.check(evidence, "other")


def test_what_marks_a_run_is_always_the_same() -> None:
    """No time and no path: evidence of the same run has the same digests."""
    assert formats.marker("nighthawk") == {"schema": 1, "format": "nighthawk", "engine": "upstream"}
    for wrong in (("fortio", "upstream"), ("k6", "mine")):
        with pytest.raises(ValueError, match=wrong[0]):
            formats.marker(*wrong)


def test_a_result_file_that_is_no_file_is_never_opened(evidence: Path) -> None:
    """A pipe would be waited for, and a link leads out of the evidence."""
    for make in (os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")):
        path = evidence / "cart@node-a.json"
        make(path)
        with pytest.raises(EvidenceError, match="no regular file"):
            formats.check(evidence, "nighthawk")
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_stream_of_results_is_not_asked_of_another_load_generator(evidence: Path) -> None:
    (evidence / "cart@node-a.json").write_text(json.dumps(native()))
    mark(evidence, "nighthawk")
    with pytest.raises(EvidenceError, match="no results stream"):
        choose_source(evidence, stream=True, scenario="mesh")


def test_names_are_names_and_nothing_else(tmp_path: Path) -> None:
    """Quotes, spaces, line ends and other scripts in target and node come out as they went in."""
    target, node = "'; DROP TABLE x; --", "node <b>\u00e9\u2603"
    folder = tmp_path / "evidence"
    write_plan(folder, shares={target: 9}, engines={node: "10.0.0.1"})
    (folder / "shares.tsv").write_text(f"{target}\t9\n")
    found = rows(folder, "nighthawk", {f"{target}@{node}.json": json.dumps(native(statistics=[]))})
    assert found.executions[0]["label"] == f"mesh/{target}"
    assert [row["backend"] for row in found.backends] == ["10.0.0.1"]
    made = build_tables(folder, tmp_path / "tables", run="r")
    assert made["executions"]["rows"] == 1
