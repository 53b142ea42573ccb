"""Each fault ends in its stated verdict: the right target, node, class and cause, and nothing else is blamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from harness.files import read_json
from harness.runs import RunFolder
from tests.conftest import Doit

pytestmark = [pytest.mark.fleet, pytest.mark.timeout(200)]

TARGETS = {"svc-1", "svc-2", "uds-echo"}


@dataclass(frozen=True)
class Graded:
    """A run that ended: exit code, output, and its stored verdict."""

    code: int
    output: str
    folder: RunFolder
    document: dict[str, Any]

    @property
    def findings(self) -> set[tuple[str, str, str | None, str | None, str]]:
        """(target, rule, node, class, cause) of every finding on a target."""
        return {
            (entry["target"], finding["rule"], finding["node"], finding["class"], finding["cause"])
            for entry in self.document["targets"]
            for finding in entry["findings"]
        }

    def of(self, place: int) -> set[Any]:
        """One column of the findings."""
        return {finding[place] for finding in self.findings}

    @property
    def run_rules(self) -> set[str]:
        """Rules that concern the run and no target."""
        return {finding["rule"] for finding in self.document["run_findings"]}


def soak(doit: Doit, **settings: str) -> Graded:
    code, output = doit("soak", "run=r", **settings)
    folder = doit.folder("r")
    assert doit.leftovers() == [], output
    assert folder.report.exists(), output
    newest = sorted(folder.verdicts.glob("*.json"))[-1]
    document = read_json(newest)
    return Graded(
        code,
        output,
        folder,
        document.get("verdict", document) if isinstance(document.get("verdict"), dict) else document,
    )


def test_no_fault_passes_to_the_request_on_every_node(doit: Doit) -> None:
    found = soak(doit)
    assert (found.code, found.findings, found.run_rules) == (0, set(), set())
    rates = {"svc-1": 6, "svc-2": 6, "uds-echo": 2}
    for execution in read_json(found.folder.evidence / "report.json")["executions"]:
        target = execution["label"].partition("/")[2]
        counts = [result["counters"] for result in execution["results"]]
        assert counts == [{"benchmark.http_2xx": rates[target] * 8}] * 2


def test_a_killed_engine_is_lost_and_the_other_node_is_whole(doit: Doit) -> None:
    found = soak(doit, fault="kill-engine node-b at 3s")
    assert found.code == 1
    lost = {finding for finding in found.findings if finding[1] == "lost_backend"}
    assert {(target, node) for target, _, node, _, _ in lost} == {(target, "node-b") for target in TARGETS}
    assert found.of(1) <= {"lost_backend", "threshold"}  # the plan's floor cannot be reached by one node
    assert "LOST  node-b " in found.output
    assert "DRILL  faults were injected on purpose: kill-engine node-b at 3s" in found.output
    assert "survivors node-a=ok" in found.output


def test_an_engine_frozen_past_the_end_is_off_plan_or_late_and_never_the_meshs_fault(doit: Doit) -> None:
    found = soak(doit, fault="freeze engine node-b at 4s for 6s")
    assert found.code == 1
    assert found.of(2) - {None} == {"node-b"}
    assert found.of(4) == {"driver"}
    assert found.of(1) & {"off_plan", "driver_late", "lost_backend"}


def test_a_starved_engine_is_the_drivers_fault(doit: Doit) -> None:
    found = soak(doit, fault="starve engine node-a at 1s for 6s")
    assert found.code == 1
    assert found.of(1) <= {"driver_late", "driver_saturated", "threshold"}
    assert found.of(1) & {"driver_late", "driver_saturated"}
    assert found.of(2) - {None} == {"node-a"}
    assert found.of(4) == {"driver"}


def test_a_crashed_proxy_fails_on_its_node_only(doit: Doit) -> None:
    found = soak(doit, fault="crash-proxy node-b at 4s")
    assert found.code == 1
    assert found.of(2) - {None} == {"node-b"}
    classes = {finding[3] for finding in found.findings if finding[1] == "failures"}
    assert any(name.startswith(("pool_connection_failure", "pool_failure_remote", "stream_resets")) for name in classes)
    assert {finding[4] for finding in found.findings if finding[1] == "failures"} == {"mesh"}
    assert not found.of(1) & {"driver_late", "lost_backend", "off_plan"}


def test_a_stopped_target_fails_alone_on_every_node(doit: Doit) -> None:
    found = soak(doit, fault="stop target svc-2 at 4s for 2s")
    assert found.code == 1
    assert found.of(0) == {"svc-2"}
    assert {(node, name) for _, rule, node, name, _ in found.findings if rule == "failures"} == {
        ("node-a", "http_5xx"),
        ("node-b", "http_5xx"),
    }
    assert {finding[4] for finding in found.findings if finding[1] == "failures"} == {"mesh"}


def test_a_frozen_proxy_passes_with_its_latency_shown_and_fails_under_a_threshold(doit: Doit) -> None:
    found = soak(doit, fault="freeze proxy node-b at 4s for 2s")
    assert (found.code, found.findings) == (0, set()), found.output
    assert worst_max_ms(found, "svc-1") > 1000


def test_a_frozen_proxy_fails_under_a_latency_threshold(doit: Doit) -> None:
    found = soak(doit, fault="freeze proxy node-b at 4s for 2s", thresholds="latency_2xx.p99 < 500ms")
    assert (found.code, found.of(1)) == (1, {"threshold"})
    assert found.of(0) == TARGETS


def test_a_slow_target_passes_and_fails_alone_under_a_latency_threshold(doit: Doit) -> None:
    found = soak(doit, fault="slow svc-2 300ms at 1s", thresholds="latency_2xx.p99 < 250ms", churn="off")
    assert (found.code, found.findings) == (1, {("svc-2", "threshold", None, None, found.findings.copy().pop()[4])})


def test_a_slow_target_alone_passes_with_its_latency_shown(doit: Doit) -> None:
    found = soak(doit, fault="slow svc-2 300ms at 1s", churn="off")
    assert (found.code, found.findings) == (0, set()), found.output
    assert worst_max_ms(found, "svc-2") > 290


def test_a_churn_that_died_never_passes_as_a_soak(doit: Doit) -> None:
    found = soak(doit, fault="kill-churn at 2s")
    assert (found.code, found.findings, found.run_rules) == (1, set(), {"churn_incomplete"})


def test_sigterm_to_the_driver_leaves_a_report_in_which_nothing_passes(doit: Doit) -> None:
    found = soak(doit, fault="stop-driver at 4s")
    assert found.code == 1
    assert found.document["counts"]["passed"] == 0
    assert "execution cancelled" in found.output
    assert found.of(4) <= {"driver", "plan", "evidence"}


def test_a_killed_driver_is_said_and_what_it_had_is_saved(doit: Doit) -> None:
    """There is no report, so nothing is graded; no second load is started, now or later."""
    code, output = doit("soak", "run=r", fault="kill-driver at 4s")
    assert code == 4, output
    assert "error: r load: the load ended without a report" in output
    assert "is never started twice; " in output
    assert " files are saved in " in output
    assert doit.leftovers() == []
    evidence = doit.folder("r").evidence
    assert (evidence / "sortie.log").stat().st_size > 0
    assert not (evidence / "SAVED").exists()
    code, output = doit("soak", "run=r")
    assert (code, "is never started twice" in output) == (4, True), output
    code, output = doit("gate:r")
    assert (code, "VERDICT PASS" in output) == (2, False), output


def test_a_killed_supervisor_leaves_nothing_and_passes_nothing(doit: Doit) -> None:
    code, output = doit("soak", "run=r", fault="kill-supervisor at 3s")
    assert code in (1, 4), output
    assert "VERDICT PASS" not in output
    assert doit.leftovers() == []


def worst_max_ms(found: Graded, target: str) -> float:
    report = read_json(found.folder.evidence / "report.json")
    execution = next(entry for entry in report["executions"] if entry["label"] == f"mesh/{target}")
    return max(entry["statistics"]["benchmark_http_client.latency_2xx"]["max"] for entry in execution["results"]) / 1e6
