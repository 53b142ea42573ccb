"""No row of a saved run can go away, be there twice or be another, and leave a PASS behind.

What may change under a PASS is listed here, with the reason; whatever else passes is a hole in the gate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.gate.verdict import PASS, Verdict
from tests.gate.clean_run import clean_run
from tests.gate.many import Many
from tests.gate.mutants import Mutant, mutants_of

ANY = ".*"
GONE = "deleted|renamed|null"
NUMBERS = "a number .*"
ORDER = "the order of these means nothing"
NAMES = "whose run it is, and where it ran: shown, and nothing is graded by it"
TELLS_LESS = "a plan that tells less contradicts nothing; the share table and run.env are what is graded"
SETTING = "a setting of the driver of which nothing else in the evidence tells"
ONCE_MORE = "the same is said once more"
NARRATES = "the log narrates; a FAIL, a SKIP and the count at its end are held against the report, no other words"
TORN = "beside a report, a line of the stream that is torn or absent says nothing"
FOR_PEOPLE = "text for people; where it can be read, it must bear out the judgement"
TELLS_THE_REST = "the report may leave it out, and tells all of it elsewhere"

ALLOWED = tuple(
    (file, re.compile(row), re.compile(kind), reason)
    for file, row, kind, reason in (
        ("run.env", r":\d+ (RUN_TAG|MODE|LABEL|CTX|NS|SYS_NS|RELEASE|PVC)", ANY, NAMES),
        ("run.env", r":\d+ (REPORT_FILE|STREAM_FILE|STATSD|SORTIE_CHART_\w+|VERIFIED|JOB|T_JOB|T_LOAD)", ANY, NAMES),
        ("run.env", r":\d+ (BACKENDS|DURATION_S)", "doubled", ONCE_MORE),
        ("run.env", r":\d+ (BACKENDS|DURATION_S)", "swapped with the next", ORDER),
        ("run.env", r":\d+ DURATION_S", "deleted|end of the file lost", "the report and plan.yaml tell the duration"),
        ("plan.yaml", r":\d+ version|:3 name|:\d+ dns|:\d+ pool|:\d+ User", ANY, SETTING),
        ("plan.yaml", r":\d+ (protocol|concurrency|max_pending_requests|type|open_loop)", ANY, SETTING),
        ("plan.yaml", r":\d+ (rate|duration)", "deleted", TELLS_LESS),
        ("plan.yaml", r":\d+ (rate|duration|per_backend)", "swapped with the next", ORDER),
        ("plan.yaml", r":\d+ thresholds|:24 counter", "end of the file lost", TELLS_LESS),
        ("plan.yaml", r":\d+ (counter|rate|latency_)", "doubled", ONCE_MORE),
        ("plan.yaml", r":\d+ (counter|rate)", "swapped with the next", ORDER),
        ("engines.tsv", r":\d+ field 3", ANY, "the name of a pod: nothing else tells it"),
        ("engines.tsv", r":\d+", "a letter more|cut in half|torn", "the name of a pod, the last on its line"),
        ("engines.tsv", r":\d+", "swapped with the next", ORDER),
        ("schedule.tsv", r":\d+ field 1", NUMBERS, "when a roll was planned: shown; that it was done is judged"),
        ("schedule.tsv", r":\d+", "swapped with the next", ORDER),
        ("churn.log", r":1 churn", "(?!end of the file lost|torn).*", "the first line narrates"),
        ("churn.log", r":6 churn", ANY, "the last line narrates"),
        ("churn.log", r":\d+ ROLLED", NUMBERS, "when a roll was done, and how long it took: shown"),
        ("churn.log", r":\d+ ROLLED", "a letter more|no UTF-8", "behind the time that it took: shown"),
        ("churn.log", r":\d+ ROLLED", "swapped with the next", "the order of rolls of different things"),
        ("sortie.log", "file", "emptied", "no log: said in a note"),
        ("sortie.log", r":\d+( running)?", ANY, NARRATES),
        ("sortie.log", r":([1-9]|10) (PASS|ok)", "(?!(FAIL|SKIP) for).*", NARRATES),
        (
            "sortie.log",
            r":11 PASS",
            "(?!(FAIL|SKIP) for|a number (10|0)).*",
            "a log without summary line: said in a note",
        ),
        ("results.jsonl", "file", "emptied", TORN),
        ("results.jsonl", r":\d+", "deleted|cut in half|torn|end of the file lost", TORN),
        ("results.jsonl", r":\d+", "a letter more|control character|no UTF-8", TORN),
        ("results.jsonl", r":\d+", "swapped with the next", ORDER),
        ("report.json", r"\.pass", GONE, "the whole report may leave it out; every execution has its own"),
        ("report.json", r"\.executions\[\d\](\.(backends|thresholds|results)\[\d\])?", "swapped with the next", ORDER),
        ("report.json", r"\.executions\[\d\]\.(scenario|pool|dns)", GONE, TELLS_THE_REST),
        ("report.json", r"\.executions\[\d\]\.(rate|ended_at|totals)", GONE, TELLS_THE_REST),
        ("report.json", r"\.executions\[\d\]\.results\[\d\]\.started_at", GONE, TELLS_THE_REST),
        ("report.json", r"\.executions\[\d\]\.thresholds\[\d\]\.scope", GONE, "the expression tells its scope"),
        (
            "report.json",
            r"\.executions\[\d\]\.thresholds\[[0-6]\]\.actual",
            f"{GONE}|a text|emptied|another text|a number below 0|a number no number",
            FOR_PEOPLE,
        ),
        ("report.json", r"\.executions\[\d\]\.thresholds\[[78]\]\.actual", ANY, FOR_PEOPLE),
        (
            "report.json",
            r"\.executions\[\d\]\.results\[\d\]\.statistics(\..*)?",
            ANY,
            "a statistic: shown, and judged by what the plan limits, its own order and the counters only",
        ),
    )
)


def reason_to_pass(mutant: Mutant) -> int | None:
    """The entry of ``ALLOWED`` by which this mutant may pass."""
    for number, (file, row, kind, _) in enumerate(ALLOWED):
        if file == mutant.file and row.fullmatch(mutant.row) and kind.fullmatch(mutant.kind):
            return number
    return None


def grade_all(mutants: Iterable[Mutant], scratch: Path, capsys: pytest.CaptureFixture[str]) -> set[int]:
    """Grade them, print how many of each file came to what, and fail with every mutant that passes without a reason.

    Returns the entries of ``ALLOWED`` by which some passed.
    """
    clean, many = clean_run(), Many[Mutant](scratch)
    counted: Counter[tuple[str, str]] = Counter()
    holes: list[Mutant] = []
    used: set[int] = set()

    def judge(found: Iterable[tuple[Mutant, Verdict]]) -> None:
        for mutant, verdict in found:
            word = verdict.word
            if word == PASS:
                reason = reason_to_pass(mutant)
                word = "may pass" if reason is not None else "PASS"
                used.update(() if reason is None else (reason,))
                holes.extend([mutant] if reason is None else [])
            counted[mutant.file, word] += 1

    for mutant in mutants:
        judge(many.take(mutant, mutant.applied(clean)))
    judge(many.rest())
    with capsys.disabled():
        for file in clean:
            words = {word: number for (of, word), number in sorted(counted.items()) if of == file}
            print(f"\n{file}: {sum(words.values())} mutants, {words}", end="")
        print(f"\n{counted.total()} mutants, {len(holes)} passed without a reason")
    assert not holes, "\n".join(map(str, holes[:40]))
    return used


def test_the_run_that_is_damaged_passes(tmp_path: Path) -> None:
    """Else no mutant would prove anything."""
    many = Many[str](tmp_path)
    for without in (None, "results.jsonl"):
        files = {name: content for name, content in clean_run().items() if name != without}
        assert not list(many.take("clean", files))
    assert [verdict.word for _, verdict in many.rest()] == [PASS, PASS]


def test_one_mutant_of_each_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of mutants that differ only in which target, node, threshold, line or statistic they are about, the last."""
    grade_all({mutant.group: mutant for mutant in mutants_of(clean_run())}.values(), tmp_path, capsys)


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_every_mutant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line of every file, every element and key of the report; and no reason to pass is without its mutant."""
    used = grade_all(mutants_of(clean_run()), tmp_path, capsys)
    assert [entry for number, entry in enumerate(ALLOWED) if number not in used] == []
