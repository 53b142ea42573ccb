"""What somebody may do to a run's folder: nothing damaged or mislabelled passes, and no second load is started."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import processes
from harness.runs import RunFolder
from tests.conftest import Doit

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(300)]


def whitewash(folder: RunFolder) -> None:
    """Make the bad report look as if nothing had failed."""
    path = folder.evidence / "report.json"
    report = json.loads(path.read_text())
    for execution in report["executions"]:
        execution |= {"pass": True}
        execution.pop("failures", None)
        for threshold in execution["thresholds"]:
            threshold["pass"] = True
        for result in execution["results"]:
            result["counters"] = {"benchmark.http_2xx": execution["rate"] * 3}
        execution["totals"] = {"benchmark.http_2xx": execution["rate"] * 3 * len(execution["results"])}
    path.write_text(json.dumps({**report, "pass": True}))


def renew_sums(folder: RunFolder) -> None:
    names = sorted(path.name for path in folder.evidence.iterdir() if path.name not in ("SHA256SUMS", "SAVED"))
    digest = {name: hashlib.sha256((folder.evidence / name).read_bytes()).hexdigest() for name in names}
    folder.sums.write_text("".join(f"{digest[name]}  {name}\n" for name in names))


def without_sums(bad: RunFolder, good: RunFolder) -> None:
    whitewash(bad)
    bad.sums.unlink()


def with_new_sums(bad: RunFolder, good: RunFolder) -> None:
    whitewash(bad)
    renew_sums(bad)


def with_the_good_runs_evidence(bad: RunFolder, good: RunFolder) -> None:
    shutil.rmtree(bad.evidence)
    shutil.copytree(good.evidence, bad.evidence)


def with_a_link_to_the_good_runs_evidence(bad: RunFolder, good: RunFolder) -> None:
    shutil.rmtree(bad.evidence)
    bad.evidence.symlink_to(good.evidence.absolute())


def with_the_good_runs_tables(bad: RunFolder, good: RunFolder) -> None:
    shutil.rmtree(bad.tables)
    shutil.copytree(good.tables, bad.tables)


def with_the_good_runs_verdicts(bad: RunFolder, good: RunFolder) -> None:
    shutil.rmtree(bad.verdicts)
    shutil.copytree(good.verdicts, bad.verdicts)


def with_an_edited_verdict(bad: RunFolder, good: RunFolder) -> None:
    for path in bad.verdicts.iterdir():
        path.write_text(path.read_text().replace("FAIL", "PASS").replace('"exit_code": 1', '"exit_code": 0'))


TAMPERINGS = [
    without_sums, with_new_sums, with_the_good_runs_evidence, with_a_link_to_the_good_runs_evidence,
    with_the_good_runs_tables, with_the_good_runs_verdicts, with_an_edited_verdict,
]  # fmt: skip


@pytest.mark.parametrize("tamper", TAMPERINGS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("words", [["gate:bad"], ["soak", "run=bad"], ["report:bad"]], ids=lambda words: words[0])
def test_a_failed_run_is_not_talked_into_a_pass(
    copy: Doit, tamper: Callable[[RunFolder, RunFolder], None], words: list[str]
) -> None:
    tamper(copy.folder("bad"), copy.folder("good"))
    for _ in range(2):  # the second time nothing may have become true by repetition
        code, output = copy(*words)
        assert code in (1, 2, 4), output
        assert "VERDICT PASS" not in output
        assert "Traceback" not in output


@pytest.mark.parametrize("tamper", TAMPERINGS[:5], ids=lambda function: function.__name__)
def test_the_gate_of_the_command_line_is_not_talked_into_a_pass_either(
    copy: Doit, tamper: Callable[[RunFolder, RunFolder], None]
) -> None:
    import subprocess
    import sys

    tamper(copy.folder("bad"), copy.folder("good"))
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", "gate", "bad", "--runs", str(copy.runs)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (1, 2), done.stdout + done.stderr
    assert "VERDICT PASS" not in done.stdout


def test_a_finished_run_without_its_live_files_loads_nothing_again(copy: Doit) -> None:
    """live/ is only for looking: what is saved stands, and the same command repeats the verdict."""
    folder = copy.folder("good")
    shutil.rmtree(folder.live)
    report = (folder.evidence / "report.json").read_bytes()
    code, output = copy("soak", "run=good")
    assert code == 0, output
    assert re.findall(r"^(\w+) +(?:done|kept)", output, flags=re.M) == ["save", "tables", "gate", "report"]
    assert (folder.evidence / "report.json").read_bytes() == report
    assert not folder.live.exists()


def test_a_run_whose_load_was_asked_for_and_is_gone_loads_nothing_again(copy: Doit) -> None:
    """Neither saved nor alive, its live files deleted: nobody can tell what its load did, so there is no second."""
    folder = copy.folder("good")
    shutil.rmtree(folder.live)
    shutil.rmtree(folder.evidence)
    for name in ("50-save", "60-tables", "70-gate", "80-report"):
        (folder.stages / f"{name}.json").unlink()
    code, output = copy("soak", "run=good")
    assert code == 4, output
    assert "is never started twice" in output
    assert copy.leftovers() == []
    code, output = copy("soak", "run=good")
    assert (code, "is never started twice" in output) == (4, True), output


def test_a_fleet_that_ended_before_any_load_is_started_again(doit: Doit) -> None:
    """The engines' receipt stands, but nothing of the fleet does and no load was asked for: nothing can be doubled."""
    child = doit.start("soak", "run=r", settle_s="30")
    while not (doit.folder("r").stages / "30-engines.json").exists():
        assert child.poll() is None, child.communicate()[0]
        time.sleep(0.05)
    time.sleep(0.3)  # the load stage has written its intent, and settles
    child.kill()
    child.communicate()
    assert doit.folder("r").intent.exists()
    processes.end(doit.processes(), grace_s=20)
    text = doit.folder("r").run_json.read_text()
    doit.folder("r").run_json.write_text(text.replace('"settle_s": 30.0', '"settle_s": 0.1'))
    (doit.folder("r").stages / "00-plan.json").unlink()
    code, output = doit("soak", "run=r")
    assert code == 0, output
    assert re.findall(r"^(\w+) +(?:done|kept)", output, flags=re.M).count("engines") == 1
    assert "VERDICT PASS" in output


def test_a_run_that_was_given_up_stays_given_up(doit: Doit) -> None:
    code, output = doit("soak", "run=r", pin_file="/nonexistent")
    assert code == 3, output
    child = doit.start("soak", "run=r")
    while not doit.folder("r").engines.exists():
        assert child.poll() is None, child.communicate()[0]
    child.kill()
    child.communicate()
    code, output = doit("teardown:r")
    assert code == 0, output
    code, output = doit("soak", "run=r")
    assert code == 4, output
    assert "run r is over: torn down; " in output
    assert doit.leftovers() == []


def test_a_mark_without_a_run_behind_it_is_no_run(doit: Doit) -> None:
    """Killed before its first file: the run has not begun, and another may."""
    doit.runs.mkdir()
    (doit.runs / ".unfinished.json").write_text('{"run": "r"}')
    (doit.runs / "r").mkdir()
    code, output = doit()
    assert (code, "unfinished" in output) == (0, False), output
    code, output = doit("soak", "run=r", duration_s="2", churn="off")
    assert code == 0, output


def test_a_supervisor_that_hangs_is_torn_down(doit: Doit) -> None:
    import os
    import signal

    from harness.files import read_json

    child = doit.start("soak", "run=r", duration_s="30", churn="off")
    while not doit.folder("r").load_json.exists():
        assert child.poll() is None, child.communicate()[0]
        time.sleep(0.1)
    child.kill()
    child.communicate()
    os.kill(read_json(doit.folder("r").fleet_json)["supervisor"]["pid"], signal.SIGSTOP)
    code, output = doit("teardown:r")
    assert code == 0, output
    assert doit.leftovers() == []


def test_parallel_gradings_of_one_run_agree(copy: Doit) -> None:
    shutil.rmtree(copy.folder("good").tables)
    children = [copy.start("gate:good") for _ in range(4)]
    for child in children:
        output, _ = child.communicate(timeout=120)
        assert (child.returncode, "VERDICT PASS" in output) == (0, True), output


@pytest.mark.parametrize("runs", ["file", "locked"])
def test_a_place_that_cannot_hold_runs_is_refused_in_a_sentence(doit: Doit, tmp_path: Path, runs: str) -> None:
    place = tmp_path / runs
    if runs == "file":
        place.write_text("")
    else:
        (place / ".lock").mkdir(parents=True)
    doit.runs = place
    code, output = doit("soak")
    assert (code, output.count("\n")) == (3, 1), output
    assert output.startswith(f"error: runs={place} cannot hold runs (")
