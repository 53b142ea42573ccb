"""The step with a new ServiceAccount: its tally is a finding, no tally ends the schedule, both objects are deleted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ForbiddenError
from harness.fleet.kubernetes.churn import probe
from harness.fleet.kubernetes.churn.calls import Thing
from harness.fleet.kubernetes.churn.runner import Churn
from harness.fleet.kubernetes.churn.schedule import Schedule
from harness.fleet.kubernetes.churn.service_account import answered, tally_text
from tests.fleet.kubernetes.churn.conftest import IMAGE, Done
from tests.fleet.kubernetes.churn.fake import FakeCluster

ReadText = Callable[[str], Schedule]
Do = Callable[..., Done]
TEXT = """
[objects]
web = "{namespace}/deployment/web"
[[step]]
at_s = 20
do = "new-service-account"
name = "newsa-1"
for_s = 3
labels = { managed = "true" }
annotations = { upstreams = "svc-1" }
[[step]]
at_s = 200
do = "roll"
what = "web"
"""
ACCOUNT, POD = (Thing("aether-test", kind, "newsa-1") for kind in ("serviceaccount", "pod"))


def left(done: Done) -> list[Thing]:
    return [thing for thing in done.cluster.objects if thing.name == "newsa-1"]


def test_the_pod_has_no_rights_and_the_labels_of_its_step(schedule_of: ReadText, do: Do) -> None:
    seen: list[dict[str, Any]] = []

    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        def look(number: int, text: str) -> None:
            if text == f"read {POD}":
                seen.append(cluster.objects[POD])

        cluster.watch = look

    assert do(schedule_of(TEXT), prepare=prepare).code == 0
    meta, spec = seen[0]["metadata"], seen[0]["spec"]
    assert (meta["labels"]["managed"], meta["annotations"]["upstreams"]) == ("true", "svc-1")
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("newsa-1", False)
    assert spec["securityContext"]["runAsNonRoot"] is True
    container = spec["containers"][0]
    assert container["image"] == IMAGE
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(json.loads(container["command"][3])["urls"]) == {"svc-1", "uds-echo"}


@pytest.mark.parametrize("tally", [{"200": 9, "503": 1}, {"200": 9, "connerr": 1}, {"302": 4}])
def test_an_answer_that_is_no_2xx_is_a_finding_and_the_schedule_goes_on(
    schedule_of: ReadText, do: Do, tally: dict[str, int]
) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.tally = tally

    done = do(schedule_of(TEXT), prepare=prepare)
    assert done.code == 0
    assert f"svc-1:{tally_text(tally)}" in next(line for line in done.lines if line.startswith("FAILED newsa/newsa-1"))
    assert any(line.startswith("ROLLED aether-test/deployment/web") for line in done.lines)
    assert left(done) == []


def test_no_tally_ends_the_schedule(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.tally = {}

    done = do(schedule_of(TEXT), prepare=prepare)
    assert done.code == 1
    failed = next(line for line in done.lines if line.startswith("FAILED newsa/newsa-1"))
    assert failed.endswith("the pod ended Succeeded with exit code 0 and no tally; it said nothing")
    assert not [line for line in done.lines if line.startswith("ROLLED")]
    assert left(done) == []
    assert not done.undo.exists()


def test_an_object_of_somebody_else_is_not_deleted(schedule_of: ReadText, do: Do) -> None:
    done = do(schedule_of(TEXT), prepare=lambda cluster, churn: cluster.put(str(ACCOUNT)))
    assert done.code == 1
    assert left(done) == [ACCOUNT]
    assert [text for _, text in done.changes] == [f"create {ACCOUNT}"]


def test_what_may_not_be_made_is_deleted_all_the_same(schedule_of: ReadText, do: Do) -> None:
    def prepare(cluster: FakeCluster, churn: Churn) -> None:
        cluster.failing[f"create {POD}"] = ForbiddenError("may not")

    done = do(schedule_of(TEXT), prepare=prepare)
    assert (done.code, left(done)) == (1, [])


@pytest.mark.parametrize(
    ("tally", "text", "good"),
    [
        ({}, "ok=0,non2xx=0,connerr=0,codes=-", False),
        ({"200": 3, "204": 1}, "ok=4,non2xx=0,connerr=0,codes=200x3+204x1", True),
        ({"200": 3, "connerr": 2, "503": 1}, "ok=3,non2xx=1,connerr=2,codes=200x3+503x1", False),
        ({"200": 0}, "ok=0,non2xx=0,connerr=0,codes=200x0", False),
    ],
)
def test_a_tally_as_text(tally: dict[str, int], text: str, good: bool) -> None:
    assert (tally_text(tally), answered(tally)) == (text, good)


def test_the_probe_counts_what_real_servers_answer(tmp_path: Path) -> None:
    """The very text that the pod runs, as the pod runs it, against a server on loopback and a closed port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(302 if self.path == "/away" else 200)
            self.send_header("Location", "/")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    told = tmp_path / "termination-log"
    source = Path(probe.__file__).read_text().replace("/dev/termination-log", str(told))
    urls = {"good": f"{url}/", "moved": f"{url}/away", "closed": "http://127.0.0.1:1/"}
    wanted = {"for_s": 0.5, "every_s": 0.1, "limit_s": 1.0, "urls": urls}
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [sys.executable, "-I", "-c", source, json.dumps(wanted)],
        capture_output=True, text=True, timeout=30, check=True, env=environment,
    )  # fmt: skip
    server.shutdown()
    server.server_close()
    assert done.stderr == ""
    tallies = json.loads(told.read_text())
    assert json.loads(done.stdout) == tallies
    assert {name: set(tally) for name, tally in tallies.items()} == {
        "good": {"200"},
        "moved": {"302"},
        "closed": {"connerr"},
    }
    assert tallies["good"]["200"] >= 2
