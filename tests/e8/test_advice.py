"""Every rule about ladders has an owner, and one sentence that says what to do next."""

from __future__ import annotations

import re
from pathlib import Path

from harness.e8.advice import ADVICE, CONTRADICTION, OWNERS, explained, next_step
from harness.settings import BY_KEY
from tests.e8.every_rule import RULES

ROOT = Path(__file__).parents[2]
SAID = {rule: advice.next_step for rule, advice in ADVICE.items()}


def test_every_rule_has_a_next_step_and_nothing_else_has_one() -> None:
    assert sorted(ADVICE) == sorted([CONTRADICTION, *RULES])
    assert all(next_step(rule) == said for rule, said in SAID.items())
    assert next_step("lost_backend") is None


def test_it_is_one_sentence_of_its_own() -> None:
    for rule, said in SAID.items():
        assert said.endswith(".") and not re.search(r"\.\s+[A-Z]", said), rule
        assert "\n" not in said and "  " not in said, rule
    assert len(set(SAID.values())) == len(SAID)


def test_every_finding_has_an_owner() -> None:
    assert {advice.owner for advice in ADVICE.values()} == set(OWNERS)


def test_it_names_settings_that_there_are() -> None:
    named = {name for said in SAID.values() for name in re.findall(r"([a-z0-9_.]+)=", said)}
    assert named and named <= set(BY_KEY)


def test_every_rule_is_explained_and_stands_where_it_is_said() -> None:
    for rule in ADVICE:
        about = explained(rule)
        assert about.asserts.endswith(".") and about.judged
        place = ROOT / about.file
        assert place.is_dir() if rule == CONTRADICTION else place.read_text().count(f"def {rule}(") == 1
