"""No figure of a ladder that was measured here can become another one, in any of its files, and leave a PASS behind.

What may change under a PASS is listed here, with the reason; whatever else passes is a hole in the judge.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from harness.e8.grade import grade, judge
from harness.e8.questions import ask_of
from harness.errors import EvidenceError
from harness.gate.verdict import PASS, REFUSED
from harness.store.columns import LADDER
from harness.store.contradictions.ladder import of_ladder
from harness.store.formats import e8
from harness.store.ingest import build_tables, ladder_rows
from harness.store.kinds import tables_of
from harness.store.ladder_files import read_ladder_files
from tests.e8.made import RUN, made_files, write_files
from tests.gate.mutants import Mutant, document_mutants

ANY = ".*"
GONE = "deleted|renamed|null"
ORDER = "the order of these means nothing"
FORM = "the form of a file, whose values are read by their names"
ONCE_TOLD = "nothing else in the evidence tells it, and no ladder is judged by it"
SAME_NUMBER = "recorders write numbers as text too: it is the same number"
SAME_AS_RUNGS = "every rung tells it too"
SAME_AS_SETTINGS = "what is not said is the usual one, and run.json says the same"
FINER = "half a millisecond of a client's first or last turn: no figure is told so finely"
NOT_JUDGED = (
    "command|mean_turn_ms|duty_is_bound|method|reason|per_exec_ms|spread_pct|per_sandbox_ms.*|repeats|files|head|"
    "tool_call_rate|rounds.*"
)
HELD_SETTINGS = r"turns_per_rung|degrade_x|min_c|rss_budget_bytes"

ALLOWED = tuple(
    (re.compile(file), re.compile(row), re.compile(kind), reason)
    for file, row, kind, reason in (
        (r".*\.json", ANY, "as text", SAME_NUMBER),
        (r"(run|rungs|workload|pins)\.json", r"\.schema", ANY, FORM),
        (r"run\.json", rf"\.settings\.(?!e8\.({HELD_SETTINGS})$).*", ANY, "a setting that no record repeats"),
        (r"target\.json", r"\.pool", GONE, "the turns of the rungs tell it at the latest"),
        (r"target\.json", r"\.(placement|generator_cores)", ANY, ONCE_TOLD),
        (r"workload\.json", rf"\.({NOT_JUDGED})", ANY, ONCE_TOLD),
        (r"ladder\.json", r"\.(arm|basis|lag_resolution_ms)", "deleted|null", SAME_AS_RUNGS),
        (r"ladder\.json", r"\.(degrade_x|min_c)", "deleted|null", SAME_AS_SETTINGS),
        (r"ladder\.json", r"\.complete", "deleted|null", "rungs.json tells it too"),
        (r"ladder\.json", r"\.rungs\[\d\]", "swapped with the next", ORDER),
        (r"(ladder|c\d+)\.json", r"(\.rungs\[\d\])?\.repeat", GONE, "a rung without a number is the first"),
        (r"c\d+\.turns\.jsonl", r":\d+", "swapped with the next", "the turns of two clients, in another order"),
        (r"c\d+\.turns\.jsonl", r":\d+ \.start_ms", "0|not whole|swapped with the next", FINER),
        (r"c\d+\.turns\.jsonl", r":\d+ \.ms", "not whole", FINER),
        (r"c\d+\.turns\.jsonl", r":\d+ \.(code|stop)", "a number 10 % off|null", "a failure of the same kind"),
        (r"c\d+\.turns\.jsonl", r":\d+ \.(session|error)", ANY, "text for people"),
        (r"c\d+\.turns\.jsonl", r":\d+ \.stop", "a text|emptied|another text|swapped with the next", "no error either"),
    )
)


def reason_to_pass(mutant: Mutant) -> int | None:
    """The entry of ``ALLOWED`` by which this mutant may pass."""
    for number, (file, row, kind, _) in enumerate(ALLOWED):
        if file.fullmatch(mutant.file) and row.fullmatch(mutant.row) and kind.fullmatch(mutant.kind):
            return number
    return None


def mutants_of(files: Mapping[str, bytes]) -> Iterator[Mutant]:
    """Every key and value of every document and of every turn, and the lines of turns as lines."""
    for mutant in _mutants_of(files):
        if mutant.said != "null" or mutant.kind not in ("deleted", "renamed"):  # neither is known then
            yield mutant


def _mutants_of(files: Mapping[str, bytes]) -> Iterator[Mutant]:
    for file, content in files.items():
        if file.endswith(".json"):
            yield from document_mutants(file, json.loads(content))
        elif file.endswith(".turns.jsonl"):
            yield Mutant(file, "file", "emptied", b"")
            yield from _turns(file, content.decode().splitlines())


def _turns(file: str, lines: list[str]) -> Iterator[Mutant]:
    for number, line in enumerate(lines):
        before, after, row = lines[:number], lines[number + 1 :], f":{number + 1}"

        def content(*middle: str, before: list[str] = before, after: list[str] = after, end: str = "") -> bytes:
            return ("".join(f"{one}\n" for one in (*before, *middle, *after)) + end).encode("utf-8", "surrogateescape")

        half = line[: len(line) // 2]
        yield Mutant(file, row, "deleted", content())
        yield Mutant(file, row, "doubled", content(line, line))
        yield Mutant(file, row, "cut in half", content(half))
        yield Mutant(file, row, "a letter more", content(line + "x"))
        yield Mutant(file, row, "no UTF-8", content(line + "\udcff"))
        yield Mutant(file, row, "torn", content(after=[], end=half))
        if after:
            yield Mutant(file, row, "swapped with the next", content(after[0], line, after=after[1:]))
        for mutant in document_mutants(file, json.loads(line)):
            yield replace(mutant, row=f"{row} {mutant.row}", content=content(mutant.content.decode()))


def sample_of(files: Mapping[str, bytes]) -> Iterable[Mutant]:
    """One of the mutants that differ only in the rung, worker, line or name that they are about: the last."""
    groups: dict[tuple[str, str, str], Mutant] = {}
    for mutant in mutants_of(files):
        of = re.sub(r"^c\d+", "c", mutant.file)
        row = re.sub(r"\[\d+\]|:\d+", "[]", re.sub(r"(system|system_end|settings|why_unknown)\..*", r"\1.", mutant.row))
        groups[of, row, mutant.kind] = mutant
    return groups.values()


def word_of(evidence: Path, files: Iterable[str]) -> str:
    """The verdict of evidence, as the tables and the grading come to it, without the Parquet between."""
    listed = dict.fromkeys(files, "")
    try:
        for rows in ladder_rows(evidence, run=RUN, files=listed).values():
            for _ in rows:
                pass
        ladder = e8.read_evidence(evidence, run=RUN, files=listed)
        contradiction = of_ladder(ladder, read_ladder_files(evidence, listed))
    except EvidenceError as error:
        assert error.message and "\n" not in error.message
        return REFUSED
    if contradiction is not None:
        assert "\n" not in contradiction
        return REFUSED
    return judge(RUN, ladder, ask_of(ladder)).word


def grade_all(mutants: Iterable[Mutant], scratch: Path, capsys: pytest.CaptureFixture[str]) -> set[int]:
    """Grade them, print what they came to, and fail with every mutant that passes without a reason.

    Returns the entries of ``ALLOWED`` by which some passed.
    """
    clean = made_files()
    evidence = write_files(scratch / "evidence", clean)
    counted: Counter[str] = Counter()
    holes: list[Mutant] = []
    used: set[int] = set()
    for mutant in mutants:
        (evidence / mutant.file).write_bytes(mutant.content)
        word = word_of(evidence, clean)
        (evidence / mutant.file).write_bytes(clean[mutant.file])
        if word == PASS:
            reason = reason_to_pass(mutant)
            word = "may pass" if reason is not None else "PASS"
            used.update(() if reason is None else (reason,))
            holes.extend([mutant] if reason is None else [])
        counted[word] += 1
    with capsys.disabled():
        print(f"\n{counted.total():,} mutants of a ladder: {dict(counted)}")
    assert not holes, "\n".join(map(str, holes[:200]))
    return used


def test_the_ladder_that_is_damaged_passes(tmp_path: Path) -> None:
    """Else no mutant would prove anything."""
    evidence = write_files(tmp_path / "evidence", made_files())
    assert word_of(evidence, made_files()) == PASS
    build_tables(evidence, tmp_path / "tables", run=RUN)
    verdict = grade({name: tmp_path / "tables" / f"{name}.parquet" for name in tables_of(LADDER)})
    assert (verdict.word, verdict.knee.floor, verdict.bound) == (PASS, 8, "worker-cpu")


def test_a_quarter_of_the_kinds_of_mutants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grade_all(list(sample_of(made_files()))[::4], tmp_path, capsys)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_every_mutant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every key and value of every file; and no reason to pass is without its mutant."""
    used = grade_all(mutants_of(made_files()), tmp_path, capsys)
    assert [entry for number, entry in enumerate(ALLOWED) if number not in used] == []
