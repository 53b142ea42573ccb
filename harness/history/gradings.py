"""The gradings of a run as they are stored, and what each one changed against the one before. Nothing is graded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.e8.advice import ADVICE, EVIDENCE
from harness.e8.verdict import KNEE, NOT_OBSERVED
from harness.errors import EXIT_REFUSED, EvidenceError
from harness.gate import store
from harness.gate.verdict import REFUSED
from harness.runs import RunFolder
from harness.store.columns import LADDER
from harness.terminal import printable

DAMAGED = "DAMAGED"
OF_A_LADDER = frozenset({"knee", "bound", "rung", "threshold"})
"""What a ladder came to and was held against, beside its findings."""

LONGEST = 20  # findings that came, and that went, in the text of one grading


class Moved(NamedTuple):
    """What a finding is from grading to grading; its count may differ. ``target`` is None where it is the run's.

    ``unmeasured`` is true for what a rule needed and nobody counted. Of a ladder ``target`` is its arm, and its answer,
    the state of its rungs and the thresholds that it was held against count as findings too, without a ``cause``.
    """

    rule: str
    target: str | None
    node: str | None
    failure_class: str | None
    subject: str | None
    cause: str | None
    unmeasured: bool

    def to_json(self) -> dict[str, str | bool | None]:
        """The form of ``--json``."""
        return {"class" if key == "failure_class" else key: value for key, value in self._asdict().items()}

    def __str__(self) -> str:
        place = [self.rule, self.target, self.node, self.failure_class, self.subject]
        words = "  ".join(printable(part) for part in place if part is not None)
        if self.unmeasured:
            return f"{words}  not measured"
        return (
            words if self.cause is None and self.rule in OF_A_LADDER else f"{words}  cause={printable(str(self.cause))}"
        )


@dataclass(frozen=True)
class Change:
    """What a grading changed against grading ``against``, whose verdict was ``was``.

    ``came`` and ``went`` are None where one of the two judged nothing that could come or go: a refusal, but for that of
    a ladder by its rules.
    """

    against: int
    was: str
    gate: bool
    tables: bool
    reason: bool
    came: tuple[Moved, ...] | None
    went: tuple[Moved, ...] | None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        lists = {"came": self.came, "went": self.went}
        return self.__dict__ | {
            key: None if moved is None else [each.to_json() for each in moved] for key, moved in lists.items()
        }


@dataclass(frozen=True)
class Grading:
    """A stored verdict. Where it is not what was stored, ``verdict`` is DAMAGED and ``reason`` says how.

    ``change`` is against the newest earlier grading that is whole, and where this one judged anything, against the
    newest earlier one that did. It is None where there is none, or where this one is damaged.
    """

    number: int
    file: str
    verdict: str
    exit_code: int
    graded_at: str | None
    reason: str | None
    gate_sha256: str | None = None
    tables_sha256: str | None = None
    change: Change | None = None

    def to_json(self) -> dict[str, Any]:
        """The form of ``--json``."""
        return self.__dict__ | {"change": self.change.to_json() if self.change else None}


Graded = tuple[Grading, Counter[Moved] | None]
"""A grading and its findings; None where nothing was judged."""


def gradings(folder: RunFolder) -> list[Grading]:
    """Every stored grading of a run, oldest first; none is left out because of what is in its file."""
    found: list[Grading] = []
    whole: Graded | None = None
    judged: Graded | None = None
    for path in store.stored(folder.verdicts):
        grading, findings = _read(path, folder.run)
        base = whole if findings is None else judged or whole
        if grading.verdict != DAMAGED:
            whole = grading, findings
            judged = judged if findings is None else whole
            grading = replace(grading, change=_change(base, whole)) if base else grading
        found.append(grading)
    return found


def _read(path: Path, run: str) -> Graded:
    """A grading and its findings. A document that is sealed and yet no verdict of this run is damaged too."""
    number = int(path.name.partition("-")[0])
    try:
        document = store.read(path)
        if document.get("run") != run:
            raise EvidenceError(f"{path.name} is a verdict of another run; grade again")
        verdict, exit_code = str(document["verdict"]), int(document["exit_code"])
        at, reason = _text(document["graded_at"]), _text(document["reason"])
        rules, tables = _text(document["gate_sha256"]), _text(document["tables_sha256"])
        findings = Counter(_findings(document)) if _is_judged(document) else None
        return Grading(number, path.name, verdict, exit_code, at, reason, rules, tables), findings
    except (EvidenceError, OSError) as error:
        reason = str(error)
    except (KeyError, TypeError, ValueError, AttributeError):
        reason = f"{path.name} has not the form of a verdict; grade again"
    return Grading(number, path.name, DAMAGED, EXIT_REFUSED, None, reason), None


def _text(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError
    return value


def _findings(document: dict[str, Any]) -> Iterator[Moved]:
    if document.get("kind") == LADDER:
        yield from _ladder_findings(document)
        return
    for finding in document["run_findings"]:
        yield _moved(None, finding)
    for target in document["targets"]:
        for finding in target["findings"]:
            yield _moved(target["target"], finding)
        for finding in target.get("unmeasured", ()):  # verdicts of earlier versions have none
            yield _moved(target["target"], finding, unmeasured=True)


def _is_judged(document: dict[str, Any]) -> bool:
    """A refusal judged nothing, but for that of a ladder by its rules: the rungs were read."""
    return document["verdict"] != REFUSED or (document.get("kind") == LADDER and bool(document["refusals"]))


def _ladder_findings(document: dict[str, Any]) -> Iterator[Moved]:
    """Of a ladder: its answer, what bound it, its rungs' states, why it is refused, what is missing, its thresholds."""
    arm, knee = _text(document["arm"]), document["knee"]

    def of_arm(rule: str, subject: str | None, cause: str | None = None, *, unmeasured: bool = False) -> Moved:
        return Moved(rule, arm, None, None, subject, cause, unmeasured)

    answers = {
        KNEE: f"in [{knee['lo']}, {knee['hi']}], floor {knee['floor']}",
        NOT_OBSERVED: f"up to c={knee['floor']}",
    }
    yield of_arm("knee", " ".join(filter(None, (str(knee["answer"]), answers.get(knee["answer"])))))
    if document["bound"] is not None:
        yield of_arm("bound", f"{document['bound']}, runner-up {document['runner_up'] or 'none'}")
    for rung in document["rungs"]:
        yield of_arm("rung", f"{rung['name']} {rung['state']}")
    for refusal in document["refusals"]:
        rule = str(refusal["rule"])
        owner = ADVICE[rule].owner if rule in ADVICE else None
        yield of_arm(rule, None if refusal["c"] is None else f"c={refusal['c']}", owner)
    for what in document["missing"]:
        yield of_arm("not recorded", str(_text(what)), EVIDENCE, unmeasured=True)
    own = {name: document[name] for name in ("degrade_x", "min_c")}
    for name, value in {**document.get("thresholds", {}), **own}.items():
        if value is not None:
            yield of_arm("threshold", f"{name} {value:g}")


def _moved(target: str | None, finding: dict[str, Any], *, unmeasured: bool = False) -> Moved:
    node, failure_class, subject, cause = (_text(finding.get(name)) for name in ("node", "class", "subject", "cause"))
    return Moved(str(finding["rule"]), _text(target), node, failure_class, subject, cause, unmeasured)


def _change(before: Graded, now: Graded) -> Change:
    (old, had), (new, has) = before, now
    return Change(
        against=old.number,
        was=old.verdict,
        gate=new.gate_sha256 != old.gate_sha256,
        tables=new.tables_sha256 != old.tables_sha256,
        reason=new.reason != old.reason,
        came=None if has is None or had is None else tuple((has - had).elements()),
        went=None if has is None or had is None else tuple((had - has).elements()),
    )


def render(found: list[Grading]) -> Iterator[str]:
    """A line for each grading, and one for each finding that came or went."""
    for grading in found:
        about = [f"{grading.number:06d}", grading.graded_at or "?", grading.verdict, *_against(grading)]
        yield printable("  ".join([*about, grading.reason] if grading.reason else about))
        if grading.change:
            yield from _listed("CAME", grading.change.came)
            yield from _listed("WENT", grading.change.went)


def _against(grading: Grading) -> Iterator[str]:
    if change := grading.change:
        told = [f"was {change.was}"] if change.was != grading.verdict else []
        told += [f"{name} changed" for name in ("gate", "tables", "reason") if getattr(change, name)]
        told += ["findings changed"] if change.came or change.went else []
        yield f"against {change.against:06d}: {', '.join(told) or 'nothing changed'}"


def _listed(word: str, moved: tuple[Moved, ...] | None) -> Iterator[str]:
    moved = moved or ()
    yield from (f"  {word}  {each}" for each in moved[:LONGEST])
    if len(moved) > LONGEST:
        yield f"  {word}  {len(moved) - LONGEST:,} more; --json has them all"
