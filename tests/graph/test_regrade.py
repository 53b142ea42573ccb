"""Saved data graded again: nothing to do repeats the verdict, an edited rule runs the gate alone, a byte is noticed."""

from __future__ import annotations

import json
import re

import pytest

from harness.graph import receipts
from harness.graph.receipts import PROJECT
from harness.store.columns import SOAK
from tests.conftest import Doit

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(300)]


def verdicts(doit: Doit, run: str) -> list[str]:
    return sorted(path.name for path in doit.folder(run).verdicts.iterdir())


@pytest.mark.parametrize(("run", "expected"), [("good", 0), ("bad", 1)])
def test_a_second_grading_grades_nothing_and_repeats_line_and_code(copy: Doit, run: str, expected: int) -> None:
    stored = verdicts(copy, run)
    stages = {path.name: path.read_bytes() for path in copy.folder(run).stages.iterdir()}
    code, output = copy(f"gate:{run}")
    assert code == expected, output
    assert re.findall(r"^(\w+) +(\w+) ", output, flags=re.M)[:2] == [("tables", "kept"), ("gate", "kept")]
    assert output.splitlines()[-1].startswith(f"VERDICT {'PASS' if expected == 0 else 'FAIL'} targets=3 ")
    assert verdicts(copy, run) == stored
    assert {path.name: path.read_bytes() for path in copy.folder(run).stages.iterdir()} == stages


def test_a_fail_has_its_page(copy: Doit) -> None:
    page = copy.folder("bad").report.read_text()
    assert "FAIL" in page
    assert "latency_2xx.p99 &lt; 1us" in page


def test_several_runs_in_one_call_end_with_the_worst_code(copy: Doit) -> None:
    code, output = copy("gate:good", "gate:bad")
    assert (code, output.count("VERDICT ")) == (1, 2)


def test_one_edited_rule_runs_the_gate_alone_and_keeps_the_old_verdict(copy: Doit) -> None:
    """The rule's file is edited for real and put back."""
    rule = PROJECT / "sql" / "gates" / "40_above_plan.sql"
    text = rule.read_text()
    before = verdicts(copy, "good")
    tables = receipts.path_of(copy.folder("good"), "tables").read_bytes()
    try:
        rule.write_text(text + "-- a word more\n")
        code, told = copy("info", "gate:good")
        assert (code, str(rule) in told) == (1, True), told
        assert told.partition("file_dep")[0].count(".sql") == 1
        code, output = copy("gate:good")
    finally:
        rule.write_text(text)
    assert code == 0, output
    assert re.findall(r"^(\w+) +(\w+) ", output, flags=re.M)[:2] == [("tables", "kept"), ("gate", "done")]
    assert receipts.path_of(copy.folder("good"), "tables").read_bytes() == tables
    assert (verdicts(copy, "good")[:1], len(verdicts(copy, "good"))) == (before, 2)


@pytest.mark.parametrize("name", ["report.json", "results.jsonl", "sortie.log", "shares.tsv", "SHA256SUMS"])
def test_one_changed_byte_in_the_evidence_is_noticed_and_refused(copy: Doit, name: str) -> None:
    import os

    path = copy.folder("good").evidence / name
    before = path.stat()
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    code, output = copy("gate:good")
    assert code == 2, output
    assert "REFUSED good: " in output
    assert "VERDICT PASS" not in output
    code, output = copy("report:good")
    assert "REFUSED" in copy.folder("good").report.read_text()
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    code, output = copy("gate:good")
    assert code == 0, output


def test_a_changed_table_is_made_again(copy: Doit) -> None:
    path = copy.folder("good").tables / "counters.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    code, output = copy("gate:good")
    assert code == 0, output
    assert re.findall(r"^(\w+) +(\w+) ", output, flags=re.M)[:2] == [("tables", "done"), ("gate", "kept")]
    assert path.read_bytes() == whole


def test_a_lost_verdict_is_graded_again(copy: Doit) -> None:
    for path in copy.folder("good").verdicts.iterdir():
        path.unlink()
    code, output = copy("gate:good")
    assert (code, "VERDICT PASS" in output) == (0, True), output


def test_verdicts_are_chained_to_the_pins_by_digests(copy: Doit) -> None:
    """From the gate's receipt back to the pins, what a stage read is what an earlier one made, digest for digest."""
    folder = copy.folder("good")
    made: dict[str, str] = {}
    for stage in receipts.STAGES_OF[SOAK]:
        receipt = receipts.read(folder, stage)
        assert receipt is not None, stage
        for name, digest in receipt.inputs.items():
            if name in made:
                assert made[name] == digest, f"{stage} read another {name} than was made"
        made |= receipt.outputs
    pins = json.loads((folder.evidence / "pins.json").read_text())["pins"]
    assert pins["envoy"].startswith("sha256:")
    assert made["run:live/pins.json"] in (folder.evidence / "SHA256SUMS").read_text()
