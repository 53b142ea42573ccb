"""The e2e profile whole: 15 minutes, 5 nodes at 60 rps, 14 rolls, and not one request missing."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from harness.files import read_json
from tests.conftest import Doit


@pytest.mark.fleet
@pytest.mark.sweep
@pytest.mark.timeout(1500)
def test_270_000_of_270_000_with_14_rolls_inside(doit: Doit, capsys: pytest.CaptureFixture[str]) -> None:
    """Every target on every node to the request, no failure counter at all, every planned roll done."""
    e2e = Doit(doit.runs)
    code, output = e2e("soak", "profile=e2e", "run=e2e", timeout_s=1400)
    assert code == 0, output
    evidence = e2e.folder("e2e").evidence
    executions = read_json(evidence / "report.json")["executions"]
    counters: dict[str, int] = defaultdict(int)
    for execution in executions:
        assert len(execution["results"]) == 5
        for result in execution["results"]:
            assert result["counters"] == {"benchmark.http_2xx": execution["rate"] * 900}
            for name, value in result["counters"].items():
                counters[name] += value
    assert counters == {"benchmark.http_2xx": 270_000}
    assert (evidence / "churn.log").read_text().count(" ROLLED ") == 14
    with capsys.disabled():
        print("\n" + "\n".join(line for line in output.splitlines() if line.startswith(("PASS", "NOTE", "VERDICT"))))
        print(resources((evidence / "resources.jsonl").read_text(), 900))


def resources(text: str, load_s: int) -> str:
    """CPU (per cent of a core over the load) and largest memory of every part, summed over a part's processes."""
    last: dict[tuple[str, int], dict[str, float]] = {}
    memory: dict[str, float] = defaultdict(float)
    for line in text.splitlines():
        row = json.loads(line)
        last[row["name"], row["pid"]] = row
        memory[row["name"]] = max(memory[row["name"]], row["rss_bytes"])
    cpu: dict[str, float] = defaultdict(float)
    for (name, _), row in last.items():
        cpu[name] += row["cpu_s"]
    return "\n".join(
        f"  {name:<22} cpu {100 * cpu[name] / load_s:5.2f} % of a core  memory {memory[name] / 2**20:5.1f} MiB"
        for name in sorted(cpu)
    )
