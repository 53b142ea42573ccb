"""An engine in a pod: other addresses than loopback only when it is told so, and what it uses printed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.engine.__main__ import main
from harness.engine.spec import dial_address, parse_address
from harness.engine.usage import throttling, usage_line
from harness.errors import PlanError, SettingsError


def test_a_hosts_address_is_taken_only_with_network() -> None:
    assert parse_address("10.1.2.3:8443", network=True).target == ("10.1.2.3", 8443)
    assert parse_address("127.0.1.1:1", network=True) == parse_address("127.0.1.1:1")
    assert parse_address("unix:/run/proxy", network=True) == parse_address("unix:/run/proxy")
    with pytest.raises(SettingsError, match="no address of this machine"):
        parse_address("10.1.2.3:8443")


@pytest.mark.parametrize("text", ["0.0.0.0:1", "224.0.0.1:1", "svc.mesh:80", "::1:80", "10.1.2.3:99999", ":80"])
def test_what_is_no_hosts_address_is_refused_with_network_too(text: str) -> None:
    with pytest.raises(SettingsError, match="no address of a host"):
        parse_address(text, network=True)


def test_a_url_is_resolved_only_with_network() -> None:
    assert dial_address("http://localhost:18081/x", network=True).target == ("127.0.0.1", 18081)
    assert dial_address("http://127.0.3.4/", network=True).target == ("127.0.3.4", 80)
    with pytest.raises(PlanError, match="no --proxy"):
        dial_address("http://localhost:18081/x")


def test_an_engine_that_is_not_told_so_does_not_listen_on_a_hosts_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--listen", "10.1.2.3:0", "--name", "node-a", "--lifetime-s", "1"]) == SettingsError.exit_code
    assert "no address of this machine" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("cpu.stat", "usage_usec 5\nnr_periods 7\nnr_throttled 2\nthrottled_usec 1500000\n", (7, 2, 1.5)),
        ("cpu/cpu.stat", "nr_periods 7\nnr_throttled 2\nthrottled_time 1500000000\n", (7, 2, 1.5)),
        ("cpu.stat", "usage_usec 5\n", (None, None, None)),
        ("cpu.stat", "nr_throttled many\n", (None, None, None)),
        ("other", "", (None, None, None)),
    ],
)
def test_throttling_is_read_of_either_version_and_is_never_guessed(
    tmp_path: Path, name: str, text: str, found: tuple[int | float | None, ...]
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert tuple(throttling(tmp_path).values()) == found


def test_a_usage_line_is_one_json_object() -> None:
    line = usage_line("node-a")
    told = json.loads(line)
    assert "\n" not in line
    assert told["usage"] == "node-a"
    assert told["cpu_s"] > 0
    assert told["rss_bytes"] > 1 << 20
    assert {"at", "pid", "nr_periods", "nr_throttled", "throttled_s"} <= told.keys()
