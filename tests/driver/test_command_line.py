"""``python -m harness.driver``: what it refuses, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from harness.driver.__main__ import main, resolve
from harness.driver.claim import check_unclaimed
from harness.errors import LoadError, UsageError
from harness.plan.model import Plan, PlannedTarget
from harness.plan.sortie_yaml import render_plan


def write_plan(folder: Path, *thresholds: str) -> Path:
    live = folder / "run" / "live"
    live.mkdir(parents=True)
    targets = (PlannedTarget("cart", "http://cart.test/", 4),)
    plan = Plan("mesh", "nodes", "nodes.test:8443", 4, 1, 1, 18, None, None, (), targets, thresholds)
    path = live / "plan.yaml"
    path.write_text(render_plan(plan))
    return path


def arguments(plan: Path, **changes: str) -> list[str]:
    options = {"plan": str(plan), "out": str(plan.parent), "resolve": "nodes.test:8443=127.0.1.1:1"} | changes
    return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    text = capsys.readouterr().err
    assert text.count("\n") == 1
    assert text.startswith("driver: ")
    return text


def test_a_bad_threshold_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path, "latency_2xx.p99 < 500")
    assert main(arguments(plan)) == 2
    assert "must be a duration" in said(capsys)
    assert [path.name for path in plan.parent.iterdir()] == ["plan.yaml"]


def test_a_plan_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write_plan(tmp_path)
    plan.write_text("version: v2")
    assert main(arguments(plan)) == 2
    said(capsys)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"resolve": "other.test:8443=127.0.1.1:1"}, "nodes.test:8443"),
        ({"resolve": "nodes.test:8443="}, "nodes.test:8443"),
        ({"resolve": "nodes.test:8443=127.0.1.1"}, "ip:port"),
        ({"resolve": "nodes.test:8443=127.0.1.1:99999"}, "ip:port"),
        ({"out": "/nowhere/live"}, "live"),
    ],
)
def test_a_command_line_that_cannot_be_driven_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str], says: str
) -> None:
    assert main(arguments(write_plan(tmp_path), **changes)) == 2
    assert says in said(capsys)


@pytest.mark.parametrize("changes", [{"progress": "-1"}, {"progress": "nan"}, {"connections": "0"}, {"grace_s": "inf"}])
def test_a_malformed_option_exits_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, str]
) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(arguments(write_plan(tmp_path), **changes))
    assert exit_info.value.code == 2
    capsys.readouterr()


def test_addresses_are_sorted_and_each_is_taken_once() -> None:
    assert resolve("p:1=127.0.1.2:9, 127.0.1.1:9,127.0.1.2:9", "p:1") == ("127.0.1.1:9", "127.0.1.2:9")
    with pytest.raises(UsageError):
        resolve("", "p:1")


def test_a_claimed_load_exits_4_and_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write_plan(tmp_path)
    (plan.parent / "load.json").write_text("{}")
    assert main(arguments(plan)) == 4
    assert "never started twice" in said(capsys)
    assert sorted(path.name for path in plan.parent.iterdir()) == ["load.json", "plan.yaml"]


def test_files_that_cannot_be_written_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write_plan(tmp_path)
    (plan.parent / "results.jsonl").mkdir()
    assert main(arguments(plan)) == 4
    assert "results.jsonl cannot be written (Is a directory)" in said(capsys)


def test_of_many_claims_exactly_one_wins_and_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "load.json"
    code = (
        "import sys, pathlib; from harness.driver.claim import claim_load; from harness.errors import LoadError\n"
        "try: claim_load(pathlib.Path(sys.argv[1]), start_unix_ns=1, duration_s=60)\n"
        "except LoadError: sys.exit(4)"
    )
    root = Path(__file__).resolve().parents[2]
    children = [subprocess.Popen([sys.executable, "-c", code, str(path)], cwd=root) for _ in range(6)]
    assert sorted(child.wait(timeout=60) for child in children) == [0, 4, 4, 4, 4, 4]
    assert set(json.loads(path.read_text())) == {
        "schema", "pid", "start_ticks", "claimed_at", "start_unix_ns", "duration_s", "ends_unix_s",
    }  # fmt: skip
    assert [left.name for left in tmp_path.iterdir()] == ["load.json"]
    with pytest.raises(LoadError):
        check_unclaimed(path)
