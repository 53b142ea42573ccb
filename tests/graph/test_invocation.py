"""One call, several ladders: what the further ones are called with."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.graph import invocation


@pytest.mark.parametrize(
    ("words", "options"), [(["-v", "2", "e8"], ("-v", "2")), (["-c", "e8"], ("-c",)), (["e8"], ())]
)
def test_a_further_ladder_keeps_options_with_their_values(
    tmp_path: Path, words: list[str], options: tuple[str, ...]
) -> None:
    found = invocation.parse([*words, "arm=both", f"runs={tmp_path}"], {}, tmp_path / "none.toml")
    first, second = found.per_run()
    assert first.settings.arm != second.settings.arm
    assert second.doit_arguments == (*options, "e8")
    assert second.selected == ("e8",)


@pytest.mark.parametrize(
    ("words", "command", "selected", "told"),
    [
        (["-v", "2", "list"], "list", (), ("list",)),
        (["list", "--all"], "list", (), ("list", "--all")),
        (["--all", "list"], "list", (), ("list", "--all")),
        (["-v", "2", "run", "test"], "run", ("test",), ("run", "test", "-v", "2")),
        (["-v", "2", "test"], "run", ("test",), ("-v", "2", "test")),
        (["test", "-v", "2"], "run", ("test",), ("test", "-v", "2")),
        ([], "run", (), ()),
    ],
)
def test_how_much_is_told_is_no_word_of_the_command_line(
    tmp_path: Path, words: list[str], command: str, selected: tuple[str, ...], told: tuple[str, ...]
) -> None:
    found = invocation.parse([*words, f"runs={tmp_path}"], {}, tmp_path / "none.toml")
    assert (found.command, found.selected, found.doit_arguments) == (command, selected, told)


def test_both_arms_take_what_means_something_to_one_of_them(tmp_path: Path) -> None:
    words = ["e8", "arm=both", "e8.basis=e7", f"runs={tmp_path}"]
    assert len(list(invocation.parse(words, {}, tmp_path / "none.toml").per_run())) == 2


def test_a_soak_of_one_rung_takes_its_own_settings(tmp_path: Path) -> None:
    words = ["e8-soak", "arm=realism", "e8.basis=e7", "e8.soak_c=4", "e8.turn_timeout_s=5", f"runs={tmp_path}"]
    assert invocation.parse(words, {}, tmp_path / "none.toml").settings.e8.soak_c == 4
