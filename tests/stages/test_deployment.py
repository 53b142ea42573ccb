"""Ladders of a deployment that does not answer: stopped, gone on with, torn down. No turn is sent."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.e8 import refusals
from harness.e8.cpu import Hook
from harness.e8.plan import check_headroom, plan_ladder, sizes
from harness.e8.target import silent, somebodys
from harness.e8.turns import Turn
from harness.errors import FleetError, SettingsError
from harness.files import read_json, write_json
from harness.graph import invocation, receipts
from harness.runs import RunFolder
from harness.settings import LadderSettings, Settings
from harness.stages import teardown
from harness.stages.ladder import document, plan, workload
from harness.stages.ladder.rung import Measure, _commonest_failure
from harness.store.contradictions.ladder import of_ladder
from harness.store.formats import e8
from harness.store.ladder_files import read_ladder_files
from harness.store.sums import verify_sums
from tests.conftest import Doit
from tests.e8 import standin

NOBODY = "http://127.0.0.1:1"
WORDS = ("arm=capacity", "ladder=1 2", *(f"e8.{key}={NOBODY}" for key in ("base", "metrics", "stub")))


@pytest.fixture
def dead(tmp_path: Path) -> Iterator[Doit]:
    """A ladder whose deployment gave no answer to preflight."""
    doit = Doit(tmp_path / "runs")
    code, output = doit("e8", *WORDS, "run=dead")
    assert code == 4, output
    yield doit


def begun(tmp_path: Path) -> RunFolder:
    """A ladder of a deployment that is gone, planned and no more."""
    words = ["e8", *WORDS, "run=b", f"runs={tmp_path / 'runs'}"]
    found = invocation.parse(words, {}, tmp_path / "none.toml")
    invocation.set_current(found)
    assert found.live_run is not None
    plan.work(found.live_run)
    write_json(found.live_run.pins, {"pins": {}})
    return found.live_run


def test_what_a_ladder_is_of_is_known_though_nothing_answered(dead: Doit) -> None:
    code, output = dead("teardown:dead-capacity")
    assert code == 0, output
    assert "dead-capacity is over, and the deployment is left as it is; it stopped in preflight: " in output
    folder = dead.folder("dead-capacity")
    assert read_json(folder.evidence / "ladder.json")["measured"] == NOBODY
    files = verify_sums(folder.evidence)
    ladder = e8.read_evidence(folder.evidence, run=folder.run, files=files)
    assert of_ladder(ladder, read_ladder_files(folder.evidence, files)) is None
    assert "rungs_missing" in [refusal.rule for refusal in refusals.all_of(ladder).refusals]
    saved = receipts.read(folder, "save")
    assert saved is not None, "what teardown saved has a receipt, by which it can be graded"
    assert not receipts.changed_outputs(folder, saved)


def test_a_second_teardown_says_that_there_is_nothing_to_tear_down(dead: Doit) -> None:
    assert dead("teardown:dead-capacity")[0] == 0
    folder = dead.folder("dead-capacity")
    before, sums = folder.closed.read_bytes(), verify_sums(folder.evidence)
    code, output = dead("teardown:dead-capacity")
    assert code == 0, output
    assert "dead-capacity is saved, and nothing of it runs: nothing to tear down" in output
    assert folder.closed.read_bytes() == before
    assert verify_sums(folder.evidence) == sums


def test_a_finished_run_stays_finished_when_it_is_torn_down(dead: Doit, capsys: pytest.CaptureFixture[str]) -> None:
    assert dead("teardown:dead-capacity")[0] == 0
    folder = dead.folder("dead-capacity")
    folder.closed.unlink()  # as of one that was climbed to its end
    teardown.end(folder)
    assert "nothing to tear down" in capsys.readouterr().out
    assert not folder.closed.exists()


def test_rungs_that_nobody_measured_are_one_line(dead: Doit) -> None:
    """Refused in the workload, as by its receipt."""
    folder = dead.folder("dead-capacity")
    for stage, outcome in (("preflight", {"summary": "as if"}), ("workload", {"refused": "a sentence"})):
        made = [] if stage == "preflight" else workload.makes(folder)
        read = [folder.run_json if stage == "preflight" else folder.pins]
        receipts.write(
            folder, stage, inputs=receipts.digests(read, folder), outputs=receipts.digests(made, folder),
            outcome=outcome, started_at="",
        )  # fmt: skip
    code, output = dead("e8", "run=dead", "arm=capacity")
    assert code == 2, output
    assert output.count("not measured: refused in workload") == 1
    assert "\nc1 to c2   not measured: refused in workload\nsave " in output


def test_a_rung_of_a_deployment_that_gives_no_answer_is_not_measured(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    write_json(folder.workload_json, {"mean_turn_ms": 1})
    with pytest.raises(FleetError, match=f"{NOBODY} gives no answer; start it and go on with ./doit e8 run=b-capacity"):
        Measure("c1").work(folder)
    assert document.measured(folder) == []
    assert not list(folder.live.glob("c1.*")), "nothing was sent"


def test_a_deployment_that_stopped_after_preflight_is_not_refused_for_good(tmp_path: Path) -> None:
    folder = begun(tmp_path)
    with pytest.raises(FleetError, match=r"end the ladder with .*teardown:b-capacity"):
        workload.work(folder)
    assert not folder.workload_json.exists()


def test_each_address_of_a_deployment_is_looked_at() -> None:
    with standin.standing() as up:

        def target(**other: str) -> Any:
            urls = dict.fromkeys(("base", "metrics", "stub"), up.url) | other
            return somebodys(**urls, sandbox_cpu="", host_cpu="", exec_count="")

        assert silent(target()) is None
        assert silent(target(base=NOBODY)) == NOBODY
        assert silent(target(metrics=NOBODY)) == f"{NOBODY}/metrics"
        assert silent(target(stub=NOBODY)) == f"{NOBODY}/profile"


def test_a_hook_that_breaks_shows_the_line_that_names_the_error() -> None:
    found = Hook("e8.host_cpu_cmd", f"{sys.executable} -c 'raise ValueError(7)'").read()
    assert found.reason == "e8.host_cpu_cmd ended with 1: ValueError: 7"


@pytest.mark.parametrize(
    ("arm", "ladder", "own", "refused"),
    [
        ("capacity", "1 2 4 8 16", {"lease_cap": 1}, True),
        ("capacity", "1 2 4 8 16", {"turns_per_worker": 15}, True),
        ("capacity", "1 2 4 8 16", {"lease_cap": 2, "turns_per_worker": 16}, False),
        ("capacity", "1 2 4 8 16", {}, False),
        ("capacity", "auto", {"lease_cap": 1}, False),  # nobody knows yet how high it goes
        ("realism", "1 2 4 8", {"lease_cap": 1, "turns_per_worker": 1}, False),
    ],
)
def test_caps_that_would_end_a_capacity_ladder_are_refused_when_it_is_planned(
    arm: str, ladder: str, own: dict[str, int], refused: bool
) -> None:
    settings = Settings(arm=arm, ladder=ladder, e8=dataclasses.replace(LadderSettings(), **own))  # type: ignore[arg-type]
    found = plan_ladder(settings)
    if refused:
        with pytest.raises(SettingsError, match=rf"e8\.{next(iter(own))}="):
            check_headroom(found)
    else:
        check_headroom(found)


def test_a_rung_without_a_success_says_what_most_turns_failed_by(tmp_path: Path) -> None:
    turns = tmp_path / "c1.turns.jsonl"
    said = ["[Errno 111] refused"] * 3 + ["closed"]
    turns.write_text("".join(Turn(1, 0.0, 1.0, "000", None, text).to_line() + "\n" for text in said))
    assert _commonest_failure(turns) == "3 × [Errno 111] refused"


def test_sizes_are_counted_in_words() -> None:
    own = dataclasses.replace(LadderSettings(), workers=1, turns_per_worker=1, sandboxes=1, lease_cap=2)
    found = plan_ladder(Settings(arm="realism", e8=own)).tier
    assert found is not None
    assert sizes(found) == "1 worker of 1 turn, 1 sandbox of 2 leases"
