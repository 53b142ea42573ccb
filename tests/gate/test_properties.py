"""Whatever stands in the files of a run: a verdict or one sentence. And what was made false never passes.

500 examples in CI; ``./doit verify-full`` takes ten thousand and more. Both are the same each time.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.gate import Verdict, render
from harness.gate.verdict import PASS
from tests.gate.damage import Files, damaged_runs, falsified_runs
from tests.gate.many import Many

settings.register_profile(
    "gate", deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck), print_blob=False
)
PROFILE = settings.get_profile("gate")


def run_property(
    name: str,
    strategy: st.SearchStrategy[Files],
    examples: int,
    scratch: Path,
    check: Callable[[Files, Verdict], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Take ``examples`` runs through tables and gates, ``check`` each verdict, and print what came out."""
    many, words = Many[Files](scratch), Counter[str]()

    def judge(found: Iterator[tuple[Files, Verdict]]) -> None:
        for files, verdict in found:
            words[verdict.word] += 1
            lines = render(verdict, per_node=True)
            assert all(line.isprintable() for line in lines), files
            json.dumps(verdict.to_json(), allow_nan=False)
            check(files, verdict)

    @settings(PROFILE, max_examples=examples)
    @given(strategy)
    def holds(files: Files) -> None:
        judge(many.take(files, files))

    holds()
    judge(many.rest())
    with capsys.disabled():
        print(f"\n{name}: {words.total()} examples, 0 tracebacks, {dict(sorted(words.items()))}", end=" ")
    assert words.total() >= examples


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("examples", [250, pytest.param(6_000, marks=pytest.mark.sweep)])
def test_any_damage_gives_a_verdict_or_one_sentence(
    examples: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Arbitrary bytes, trees, lines: no traceback, no line of a verdict made by what stands in the evidence."""
    run_property("any damage", damaged_runs(), examples, tmp_path, lambda files, verdict: None, capsys)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("examples", [250, pytest.param(6_000, marks=pytest.mark.sweep)])
def test_what_the_verdict_rests_on_is_never_false_under_a_pass(
    examples: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any other value, another element, a key that was not there: found or refused."""

    def never_passes(files: Files, verdict: Verdict) -> None:
        assert verdict.word != PASS, files

    run_property("false evidence", falsified_runs(), examples, tmp_path, never_passes, capsys)
