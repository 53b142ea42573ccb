"""Pins: what is installed is what the pin file names, or no run starts."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.errors import PinError
from harness.files import write_json
from harness.graph.receipts import PROJECT
from harness.runs import RunFolder
from harness.stages import pins
from tests.conftest import Doit


def test_the_shipped_pins_are_the_locks_versions() -> None:
    """A version stands in requirements.lock and in pins.toml; this holds the two together."""
    lock = dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", (PROJECT / "requirements.lock").read_text(), flags=re.M))
    pinned = {name: pin for name, pin in pins.read_pins(PROJECT / "pins.toml").items() if not pin.startswith("sha256:")}
    assert pinned == {name: lock[name] for name in pinned}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", f"names no versions, or no binaries for {platform.machine()}; add a table"),
        ("versions = 1\n", "names no versions"),
        (f"[versions]\nuvloop = 1\n[binaries.{platform.machine()}]\nenvoy = 'sha256:0'\n", "every pin must be text"),
        ("[versions", "the pin file cannot be read"),
    ],
)
def test_a_pin_file_that_pins_nothing_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "pins.toml"
    path.write_text(text)
    with pytest.raises(PinError, match=sentence.replace(".", r"\.")):
        pins.read_pins(path)


def test_of_no_pins_it_is_said_that_there_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`0 pins hold` reads as if none of them did."""
    place = SimpleNamespace(pins=lambda: {"python": "3.11.7", "git": "2.39.5"})
    monkeypatch.setattr(pins, "place_of", lambda folder: place)
    folder = RunFolder(tmp_path / "r-capacity")
    folder.pins.parent.mkdir(parents=True)
    path = tmp_path / "mine.toml"
    write_json(folder.run_json, {"run": folder.run, "kind": "e8"})
    monkeypatch.setattr(pins, "pin_file", lambda folder: path)
    for text, says in (
        ("", "mine.toml pins nothing of a ladder, seen: python 3.11.7, git 2.39.5"),
        ("[ladder]\ngit = '2.39.5'\n", "1 pin holds: python 3.11.7, git 2.39.5"),
    ):
        path.write_text(text)
        assert pins.work(folder)["summary"] == says


def test_a_difference_and_an_absence_are_each_named() -> None:
    assert pins.compare({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9"}) == [
        "b is 9, pinned is 2",
        "c is not installed, pinned is 3",
    ]


def test_a_wrong_digest_refuses_the_run_before_anything_is_started(doit: Doit, tmp_path: Path) -> None:
    text = (PROJECT / "pins.toml").read_text()
    wrong = tmp_path / "pins.toml"
    wrong.write_text(re.sub(r"sha256:[0-9a-f]{64}", f"sha256:{'0' * 64}", text))
    code, output = doit("soak", "run=r", pin_file=str(wrong))
    assert code == 4
    assert f"pinned is sha256:{'0' * 64}" in output
    assert "error: r pins: envoy is sha256:" in output
    assert not doit.folder("r").fleet_json.exists()
    code, output = doit()
    assert "stopped: envoy is sha256:" in output
