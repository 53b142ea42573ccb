"""Small parts: run.env, statsd, CPU against request, the live figures, and what runs beside a load."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from harness.errors import FleetError
from harness.fleet.kubernetes import cpu
from harness.fleet.kubernetes.beside import CHURN_SCHEDULE, Beside
from harness.fleet.kubernetes.looking import progress_of
from harness.fleet.kubernetes.runenv import KEYS, append_run_env, read_run_env, write_run_env
from harness.fleet.kubernetes.statsd import resolve_statsd, with_statsd
from harness.progress import progress_text
from harness.sortie.log import progress_line
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.mock_cluster import MockApi


def test_run_env_has_its_keys_in_their_order_and_grows_once(tmp_path: Path) -> None:
    path = tmp_path / "run.env"
    assert read_run_env(path) == {}
    write_run_env(path, {"RUN_TAG": "e2e-1", "CTX": "kind-a", "BACKENDS": 5})
    assert tuple(read_run_env(path)) == KEYS
    append_run_env(path, JOB="soak-1", T_JOB=17)
    append_run_env(path, JOB="soak-1", T_LOAD=19)
    assert path.read_text().splitlines()[-3:] == ["JOB=soak-1", "T_JOB=17", "T_LOAD=19"]
    with pytest.raises(FleetError, match="another load"):
        append_run_env(path, JOB="soak-2")


@pytest.mark.parametrize("value", ["a b", "a\nB=1", "$(date)", "`x`", "a;b", "a'b", "é"])
def test_a_value_that_a_shell_would_take_for_more_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(FleetError, match="read by shells"):
        write_run_env(tmp_path / "run.env", {"CTX": value})


def test_statsd_is_an_address_or_off_with_a_reason(make_config: MakeConfig, tmp_path: Path) -> None:
    sortie = {"k8s__engine": "sortie", "k8s__chart": "oci://registry.test/sortie"}
    api = MockApi(make_config(), tmp_path)
    service = {"metadata": {"name": "otel-scraper"}, "spec": {"clusterIP": "10.0.0.9", "ports": []}}

    def seen(**settings: str) -> tuple[str, str]:
        return resolve_statsd(make_config(**settings), api)  # type: ignore[arg-type]

    assert seen()[0] == ""
    assert "off" in seen(**sortie, k8s__statsd="off")[1]
    assert "there is no Service o11y/otel-scraper" in seen(**sortie)[1]
    api.put("Service", "o11y", service)
    assert seen(**sortie)[0] == ""
    service["spec"]["ports"] = [{"port": 80, "protocol": "TCP"}, {"port": 8125, "protocol": "UDP"}]  # type: ignore[index]
    api.put("Service", "o11y", service)
    assert seen(**sortie)[0] == "10.0.0.9:8125"
    assert seen(**sortie, k8s__statsd="10.1.1.1:9125")[0] == "10.1.1.1:9125"
    for wrong in ("otel:8125", "10.1.1.1", "10.1.1.1:0", "10.1.1.999:1"):
        with pytest.raises(FleetError, match="IP:PORT"):
            seen(**sortie, k8s__statsd=wrong)


def test_a_plan_with_statsd_is_the_same_plan_beside_it() -> None:
    import yaml

    made = yaml.safe_load(with_statsd("version: v1\npools: []\n", "10.0.0.9:8125"))
    assert made.pop("stats") == {
        "flush_interval": "5s",
        "prefix": "sortie",
        "backend": "name",
        "statsd": {"address": "10.0.0.9:8125"},
    }
    assert made == {"version": "v1", "pools": []}


@pytest.mark.parametrize(
    ("quantity", "found"), [("150m", 150), ("2", 2000), ("0.5", 500), (2, 2000), (None, None), ("1Gi", None)]
)
def test_quantities_of_cpu(quantity: object, found: float | None) -> None:
    assert cpu.millicores(quantity) == found


def test_counts_of_a_process_that_was_started_anew_begin_again() -> None:
    pod = {"metadata": {"name": "e"}, "spec": {"nodeName": "n", "containers": [{"name": "engine"}]}}
    told = [(0, 50.0), (10, 51.0), (20, 0.5), (30, 1.5)]
    used = [{"usage": "n", "at": f"1970-01-01T00:00:{at:02d}Z", "cpu_s": cpu_s} for at, cpu_s in told]
    row = cpu.against_request(pod, used, from_s=0, to_s=60)
    assert (row["used_m"], row["request_m"], row["over_request"], row["nr_throttled"]) == (100, None, None, None)
    assert cpu.against_request(pod, used, from_s=25, to_s=60)["reason"] == cpu.TOO_FEW


def test_the_end_of_the_drivers_log_becomes_the_live_line(make_config: MakeConfig) -> None:
    config = make_config()
    counts = {"benchmark.http_2xx": 100, "benchmark.http_5xx": 2}
    backends = ("10.1.0.1:8443", "10.1.0.2:8443")
    lines = [
        progress_line(f"mesh/{name}", backend, elapsed_s=elapsed_s, counters=counts, mean_ns=2_000_000)
        for elapsed_s in (10, 20)
        for name in ("svc-1", "uds-echo")
        for backend in backends
    ]
    found = progress_of("\n".join(["  running mesh/svc-1", *lines]), config, engines=2)
    assert found is not None
    assert (found["http_2xx"], found["failures"], found["elapsed_s"]) == (400, {"http_5xx": 8}, 20)
    assert found["planned"] == 30 * 60 * 2
    assert "400 of 3,600 2xx" in progress_text(found, {}, ())
    assert progress_of("  running mesh/svc-1\n", config, engines=2) is None


class PatientBeside(Beside):
    """Starts a small program instead of a part."""

    def command(self, name: str) -> list[str]:
        return [sys.executable, "-c", f"print({json.dumps(name)}, flush=True); import time; time.sleep(60)"]


def test_what_runs_beside_a_load_is_started_once_found_again_and_ended(make_config: MakeConfig) -> None:
    config = make_config()
    first = PatientBeside(config)
    first.start_churn()
    assert first._running() == []  # the run has no schedule
    (config.live / CHURN_SCHEDULE).write_text("")
    first.start_churn()
    first.start_watchdog()
    first.start_watchdog()
    running = first._running()
    assert len(running) == 2
    later = PatientBeside(config)  # of a supervisor that takes over
    later.start_churn()
    later.start_watchdog()
    assert later._running() == running
    first.end(early=True)
    assert later._running() == []
    later.start_churn()
    assert later._running() == []  # never twice
    later.end(early=True)
