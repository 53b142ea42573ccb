"""Evidence with a run.json is held against it: whose it is, its plan, its schedule, its limits, its list of digests."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.errors import EvidenceError
from harness.plan.model import Plan, PlannedTarget
from harness.plan.sortie_yaml import render_plan
from harness.store.ingest import build_tables
from harness.store.sums import verify_sums

CASES = Path(__file__).parent.parent / "cases" / "gate"
RUN = "quick-1"


def plan_of(shares: str, threshold: str = "counter:benchmark.http_5xx == 0") -> str:
    """The plan whose share table this is."""
    rows = [line.split("\t") for line in shares.splitlines()]
    targets = tuple(PlannedTarget(name, url, int(rate)) for name, rate, url in rows)
    plan = Plan(
        scenario="mesh",
        pool="nodes",
        dns="nodes.fleet.internal:8443",
        rate_rps=sum(target.rate_rps for target in targets),
        duration_s=120,
        concurrency=1,
        max_pending=None,
        connections=None,
        timeout_s=None,
        headers=(),
        targets=targets,
        thresholds=(threshold,),
    )
    return render_plan(plan)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def sum_up(evidence: Path) -> None:
    """Write SHA256SUMS anew, as whoever changed a file on purpose would."""
    files = sorted(path for path in evidence.iterdir() if path.is_file() and path.name not in ("SHA256SUMS", "SAVED"))
    (evidence / "SHA256SUMS").write_text(
        "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    )


def describe(evidence: Path, **changes: Any) -> None:
    """Change run.json; a change to None takes the key away, and ``settings`` are merged."""
    path = evidence / "run.json"
    about = json.loads(path.read_text())
    settings = about["settings"] | changes.pop("settings", {})
    about |= changes | {"settings": {key: value for key, value in settings.items() if value is not None}}
    path.write_text(json.dumps({key: value for key, value in about.items() if value is not None}))
    sum_up(evidence)


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """Saved evidence of a run of ours that rolled proxies and targets."""
    folder = tmp_path / "evidence"
    shutil.copytree(CASES / "churn-complete", folder, ignore=shutil.ignore_patterns("expected.*"))
    (folder / "run.env").write_text(f"RUN_TAG={RUN}\nMODE=quick\nBACKENDS=2\nDURATION_S=120\n")
    plan = plan_of((folder / "shares.tsv").read_text())
    (folder / "plan.yaml").write_text(plan)
    (folder / "load.json").write_text("{}\n")
    (folder / "pins.json").write_text("{}\n")
    (folder / "sortie.log").write_text("PASS  2/2 executions passed\n")
    about = {
        "schema": 1,
        "run": RUN,
        "kind": "soak",
        "settings": {"nodes": 2, "floor_pct": 98, "duration_s": 120, "engine.max_send_delay_ms": 25},
        "plan_sha256": digest(plan),
        "schedule_sha256": digest((folder / "schedule.tsv").read_text()),
    }
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "SAVED").write_text("2026-03-04T05:09:00.000Z\n")
    sum_up(folder)
    return folder


@pytest.fixture
def refused(evidence: Path, tmp_path: Path) -> Callable[..., str]:
    """Make the tables, which must be refused in one sentence; returns it."""

    def build(run: str = RUN, folder: Path = evidence) -> str:
        with pytest.raises(EvidenceError) as caught:
            build_tables(folder, tmp_path / "tables", run=run)
        assert not (tmp_path / "tables").exists()
        assert "\n" not in str(caught.value)
        return str(caught.value)

    return build


def test_a_whole_run_of_ours_becomes_tables(evidence: Path, tmp_path: Path) -> None:
    assert build_tables(evidence, tmp_path / "tables", run=RUN)["plan_thresholds"]["rows"] == 1


@pytest.mark.parametrize("content", [None, "", "\n"])
def test_a_run_of_ours_without_list_of_digests_is_refused(
    content: str | None, evidence: Path, refused: Callable[..., str]
) -> None:
    (evidence / "SHA256SUMS").unlink()
    if content is not None:
        (evidence / "SHA256SUMS").write_text(content)
    assert refused().startswith("SHA256SUMS ")


def test_evidence_from_elsewhere_may_lack_the_list_but_not_have_it_empty(evidence: Path) -> None:
    (evidence / "run.json").unlink()
    (evidence / "SHA256SUMS").write_text("")
    with pytest.raises(EvidenceError, match="not in SHA256SUMS"):
        verify_sums(evidence)
    (evidence / "SHA256SUMS").unlink()
    assert verify_sums(evidence) == {}


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_link(path: Path) -> None:
    path.symlink_to("/dev/null")


def make_file(path: Path) -> None:
    path.write_text("")


@pytest.mark.parametrize("name", ["churn.log", "SHA256SUMS", "SAVED", "report.json"])
@pytest.mark.parametrize("make", [make_fifo, make_folder, make_link])
def test_what_is_no_regular_file_is_never_opened(
    name: str, make: Callable[[Path], None], evidence: Path, refused: Callable[..., str]
) -> None:
    """A FIFO would hold the reader for ever; a link leads to what was not saved."""
    (evidence / name).unlink()
    make(evidence / name)
    assert name in refused()
    assert "no regular file" in refused()


@pytest.mark.parametrize("name", [".hidden", "extra", "line\nend", b"\xff\xfe".decode(errors="surrogateescape")])
@pytest.mark.parametrize("make", [make_fifo, make_folder, make_link, make_file])
def test_anything_beside_the_list_is_named(
    name: str, make: Callable[[Path], None], evidence: Path, refused: Callable[..., str]
) -> None:
    make(evidence / name)
    assert "is in the evidence and not in SHA256SUMS" in refused()
    refused().encode()


@pytest.mark.parametrize("make", [make_fifo, make_link])
def test_evidence_from_elsewhere_is_of_files_too(
    make: Callable[[Path], None], tmp_path: Path, refused: Callable[..., str]
) -> None:
    """Folders may stand beside them; they are not read."""
    folder = tmp_path / "foreign"
    shutil.copytree(CASES / "clean", folder, ignore=shutil.ignore_patterns("expected.*"))
    (folder / "folder").mkdir()
    build_tables(folder, tmp_path / "other", run="any")
    make(folder / "plan.yaml")
    assert refused(folder=folder) == "plan.yaml is no regular file"


def test_a_file_is_listed_once(evidence: Path, refused: Callable[..., str]) -> None:
    """Two digests for one name: nothing says which was saved."""
    listing = evidence / "SHA256SUMS"
    listing.write_text(listing.read_text() + "0" * 64 + "  report.json\n")
    assert "lists report.json a second time" in refused()


def test_evidence_of_another_run_is_refused(evidence: Path, refused: Callable[..., str]) -> None:
    """Both names are said."""
    assert refused(run="quick-2") == (
        "run.json says run='quick-1', and the run is 'quick-2': this is the evidence of another run"
    )
    describe(evidence, run="quick-2")
    assert refused(run="quick-2").startswith("run.env says RUN_TAG='quick-1'")
    describe(evidence, run=None)
    assert refused().startswith("run.json says run=nothing")


def test_a_linked_evidence_folder_is_refused(evidence: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    (tmp_path / "linked").symlink_to(evidence)
    assert "symbolic link" in refused(folder=tmp_path / "linked")
    with pytest.raises(EvidenceError, match="symbolic link"):
        verify_sums(tmp_path / "linked")


@pytest.mark.parametrize(
    "name", ["plan.yaml", "shares.tsv", "engines.tsv", "run.env", "sortie.log", "load.json", "pins.json"]
)
def test_what_every_run_has_is_required(name: str, evidence: Path, refused: Callable[..., str]) -> None:
    """Left out and left out of the list too, each would switch off what it is read for."""
    (evidence / name).unlink()
    sum_up(evidence)
    assert refused().startswith(f"{name} is not in the evidence")


def test_plan_and_schedule_are_the_ones_that_were_run(evidence: Path, refused: Callable[..., str]) -> None:
    """By the digests that run.json took before anything was started."""
    plan = (evidence / "plan.yaml").read_text()
    (evidence / "plan.yaml").write_text(plan.replace("5xx", "4xx"))
    sum_up(evidence)
    assert "plan_sha256" in refused()
    (evidence / "plan.yaml").write_text(plan)
    schedule = (evidence / "schedule.tsv").read_text()
    (evidence / "schedule.tsv").write_text(schedule.split("\n", 1)[1])
    sum_up(evidence)
    assert "schedule_sha256" in refused()
    (evidence / "schedule.tsv").unlink()
    sum_up(evidence)
    assert "schedule.tsv is not in the evidence" in refused()
    describe(evidence, schedule_sha256=None)
    assert "schedule.tsv is not in the evidence" in refused()
    describe(evidence, plan_sha256=None, schedule_sha256=digest(schedule))
    assert "plan_sha256" in refused()


def test_a_run_without_rolls_has_no_schedule(evidence: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    describe(evidence, schedule_sha256=digest(""))
    assert "planned without rolls" in refused()
    (evidence / "schedule.tsv").unlink()
    sum_up(evidence)
    build_tables(evidence, tmp_path / "fine", run=RUN)


@pytest.mark.parametrize("floor", [0, 101, -1, 98.5, "98", True, None, float("inf")])
def test_a_floor_is_a_percentage_and_never_guessed(floor: object, evidence: Path, refused: Callable[..., str]) -> None:
    describe(evidence, settings={"floor_pct": floor})
    assert "floor_pct must be a whole number from 1 to 100" in refused()


@pytest.mark.parametrize("limit", [0, -1, "25", True, float("nan")])
def test_a_limit_of_lateness_is_a_number(limit: object, evidence: Path, refused: Callable[..., str]) -> None:
    """Read as no limit, it would switch its rule off."""
    describe(evidence, settings={"engine.max_send_delay_ms": limit})
    assert "max_send_delay_ms" in refused()


def test_the_duration_is_one(evidence: Path, refused: Callable[..., str]) -> None:
    describe(evidence, settings={"duration_s": 900})
    assert refused() == "run.env says DURATION_S='120', and run.json says duration_s=900"


@pytest.mark.parametrize("change", ["short", "rate", "url", "more"])
def test_the_share_table_is_the_plans(change: str, evidence: Path, refused: Callable[..., str]) -> None:
    """A target that is left out of it, and out of the report, would be missed by nobody."""
    path = evidence / "shares.tsv"
    first, *rest = path.read_text().splitlines(keepends=True)
    name, rate, url = first.split("\t")
    changed = {
        "short": "".join(rest),
        "rate": "".join((f"{name}\t{int(rate) - 1}\t{url}", *rest)),
        "url": "".join((f"{name}\t{rate}\thttp://elsewhere/\n", *rest)),
        "more": "".join((first, *rest, f"another\t1\t{url}")),
    }
    path.write_text(changed[change])
    sum_up(evidence)
    assert refused().startswith("shares.tsv is not the share table of plan.yaml")


def test_a_node_is_not_left_out(evidence: Path, refused: Callable[..., str]) -> None:
    """Left out of run.env, the engine list and the report, it would be missed by nobody."""
    (evidence / "run.env").write_text(f"RUN_TAG={RUN}\nBACKENDS=1\nDURATION_S=120\n")
    sum_up(evidence)
    assert refused() == "run.env says BACKENDS='1', and run.json says nodes=2"


def test_a_plan_of_ours_that_cannot_be_read_is_refused(evidence: Path, refused: Callable[..., str]) -> None:
    """Its thresholds would be dropped in silence."""
    for text in ("a: [", "- 1\n", ""):
        (evidence / "plan.yaml").write_text(text)
        describe(evidence, plan_sha256=digest(text))
        assert "plan.yaml is not a plan that can be read" in refused()
