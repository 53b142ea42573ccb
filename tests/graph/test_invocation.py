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
