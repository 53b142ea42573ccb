"""The driver in a pod: its engines by the pool's name, its files beside the report, its log on stdout."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from harness.driver import pool
from harness.driver.__main__ import main, read_order
from harness.driver.evidence import Evidence, Files
from harness.driver.pool import addresses_of
from harness.errors import UsageError
from tests.driver.test_command_line import write_plan

INET = (socket.AF_INET, socket.SOCK_STREAM, 6, "")


def answering(monkeypatch: pytest.MonkeyPatch, *answers: list[str] | OSError) -> None:
    """A mock of the resolver: these answers in turn, the last one again and again."""
    told = list(answers)

    def getaddrinfo(host: str, port: int, *_: Any) -> list[Any]:
        answer = told.pop(0) if len(told) > 1 else told[0]
        if isinstance(answer, OSError):
            raise answer
        return [(*INET, (address, port)) for address in answer]

    monkeypatch.setattr(pool.socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(pool, "RETRY_S", 0.01)


def test_every_address_once_in_the_order_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, ["10.0.0.10", "10.0.0.9", "10.0.0.10"])
    assert addresses_of("nodes.test:8443") == ("10.0.0.9:8443", "10.0.0.10:8443")


def test_a_name_without_an_answer_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, socket.gaierror("no such name"), [], ["10.0.0.9"])
    assert addresses_of("nodes.test:8443") == ("10.0.0.9:8443",)


def test_a_name_that_stays_without_an_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, socket.gaierror("no such name"))
    with pytest.raises(UsageError, match=r"nodes\.test:8443 names no engine within 0\.05 s \(no such name\)"):
        addresses_of("nodes.test:8443", limit_s=0.05)


def test_with_a_report_everything_stands_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, ["10.0.0.9"])
    plan = write_plan(tmp_path)
    report = tmp_path / "run-1.2.json"
    words = ["--plan", str(plan), "--resolve", "dns", "--report", str(report), "--stream", str(tmp_path / "s.jsonl")]
    order = read_order(words)
    assert order.backends == ("10.0.0.9:8443",)
    assert order.files == Files.beside(report, stream=tmp_path / "s.jsonl")
    assert order.files.claim == tmp_path / "run-1.2.load.json"
    assert Files.beside(report).stream == tmp_path / "run-1.2.jsonl"


def test_the_log_goes_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evidence = Evidence(Files.beside(tmp_path / "run-1.json"))
    evidence.log("  running mesh/cart", "")
    evidence.close()
    assert capsys.readouterr().out == "  running mesh/cart\n\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "run-1.histograms.jsonl",
        "run-1.jsonl",
        "run-1.progress.jsonl",
    ]


@pytest.mark.parametrize(
    "words", [["--report", "/nowhere/run.json"], ["--report", "run.txt"], ["--out", "live", "--stream", "s.jsonl"]]
)
def test_files_that_cannot_be_are_refused(tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    plan = write_plan(tmp_path)
    assert main(["--plan", str(plan), "--resolve", "nodes.test:8443=127.0.1.1:1", *words]) == 2
    assert capsys.readouterr().err.startswith("driver: ")


def test_a_second_driver_of_a_run_is_refused_by_the_claim_on_the_volume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answering(monkeypatch, ["127.0.1.1"])
    plan = write_plan(tmp_path)
    (tmp_path / "run-1.load.json").write_text("{}")
    assert main(["--plan", str(plan), "--resolve", "dns", "--report", str(tmp_path / "run-1.json")]) == 4
    assert "never started twice" in capsys.readouterr().err
    assert not (tmp_path / "run-1.json").exists()
