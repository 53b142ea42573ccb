"""The gradings of a run as they are stored, and what each one changed against the one before. Nothing is graded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from harness.errors import EXIT_REFUSED, EvidenceError
from harness.gate import store
from harness.gate.verdict import REFUSED
from harness.runs import RunFolder
from harness.store.columns import LADDER
from harness.terminal import printable

DAMAGED = "DAMAGED"
LONGEST = 20  # findings that came, and that went, in the text of one grading


class Moved(NamedTuple):
    """What a finding is from grading to grading; its count may differ. ``target`` is None where it is the run's.

    ``unmeasured`` is true for what a rule needed and nobody counted.
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
        return f"{words}  {'not measured' if self.unmeasured else f'cause={printable(str(self.cause))}'}"


@dataclass(frozen=True)
class Change:
    """What a grading changed against grading ``against``, whose verdict was ``was``.

    ``came`` and ``went`` are None where one of the two was refused: then nothing was judged that could come or go.
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


Graded = tuple[Grading, Counter[Moved]]


def gradings(folder: RunFolder) -> list[Grading]:
    """Every stored grading of a run, oldest first; none is left out because of what is in its file."""
    found: list[Grading] = []
    whole: Graded | None = None
    judged: Graded | None = None
    for path in store.stored(folder.verdicts):
        grading, findings = _read(path, folder.run)
        base = whole if grading.verdict == REFUSED else judged or whole
        if grading.verdict != DAMAGED:
            whole = grading, findings
            judged = judged if grading.verdict == REFUSED else whole
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
        return Grading(number, path.name, verdict, exit_code, at, reason, rules, tables), Counter(_findings(document))
    except (EvidenceError, OSError) as error:
        reason = str(error)
    except (KeyError, TypeError, ValueError, AttributeError):
        reason = f"{path.name} has not the form of a verdict; grade again"
    return Grading(number, path.name, DAMAGED, EXIT_REFUSED, None, reason), Counter()


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


def _ladder_findings(document: dict[str, Any]) -> Iterator[Moved]:
    """Of a ladder: the rules that refuse it, its answer with what bound it, and the facts that are not there."""
    for refusal in document["refusals"]:
        subject = None if refusal["c"] is None else f"c={refusal['c']}"
        yield Moved(str(refusal["rule"]), None, None, None, subject, LADDER, False)
    for what in document["missing"]:
        yield Moved("not recorded", None, None, None, str(_text(what)), LADDER, True)
    knee = document["knee"]
    answer = f"{knee['answer']} {knee['floor']} [{knee['lo']}, {knee['hi']}] bound={document['bound']}"
    yield Moved("knee", None, None, None, answer, LADDER, False)


def _moved(target: str | None, finding: dict[str, Any], *, unmeasured: bool = False) -> Moved:
    node, failure_class, subject, cause = (_text(finding.get(name)) for name in ("node", "class", "subject", "cause"))
    return Moved(str(finding["rule"]), _text(target), node, failure_class, subject, cause, unmeasured)


def _change(before: Graded, now: Graded) -> Change:
    (old, had), (new, has) = before, now
    judged = REFUSED not in (old.verdict, new.verdict)
    return Change(
        against=old.number,
        was=old.verdict,
        gate=new.gate_sha256 != old.gate_sha256,
        tables=new.tables_sha256 != old.tables_sha256,
        reason=new.reason != old.reason,
        came=tuple((has - had).elements()) if judged else None,
        went=tuple((had - has).elements()) if judged else None,
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
