"""What was asked for: the command line split into doit's part and settings, and the runs it concerns."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness import settings as settings_module
from harness.e8.arms import ARMS, CAPACITY, REALISM
from harness.errors import BusyError, EvidenceError, SettingsError, UsageError
from harness.files import read_json
from harness.graph import receipts, rungs
from harness.runs import RESERVED, RUN_ID, RunFolder, check_run_id, new_run_id
from harness.settings import Settings
from harness.store.columns import LADDER, SOAK
from harness.store.kinds import kind_of_run

COMMANDS = frozenset({"run", "list", "info", "help", "tabcompletion"})
REFUSED_COMMANDS = frozenset({"clean", "forget", "ignore", "dumpdb", "strace", "reset-dep"})
OPTIONS = frozenset(
    {"-a", "--always-execute", "-c", "--continue", "-v", "--verbosity", "--all", "-q", "--quiet", "--status", "-p",
     "--private", "--deps", "--template", "--sort", "--no-status", "--shell", "--help", "--version"}
)  # fmt: skip
WITH_VALUE = frozenset({"-v", "--verbosity"})
CHECKS = ("e8-lag-check", "e8-soak", "free-check")
SETTLED = (LADDER, SOAK, "e8-soak", "e8-lag-check")
"""Tasks that take settings."""
TASKS = (*receipts.STAGES, SOAK, LADDER, "teardown", "status", *CHECKS, "test", "lint", "verify-full", "bench")
NEWEST = 50  # runs that get tasks of their own when the command line names none


@dataclass(frozen=True)
class Invocation:
    """One call of ``doit``. ``live_run`` is the run whose live stages may be started, if any, and ``kind`` its kind.

    ``queued`` are further ladders that the same call climbs, one after another. ``told`` are the tasks of which the
    terminal was told already: a graph may be drawn more than once.
    """

    settings: Settings
    doit_arguments: tuple[str, ...]
    command: str
    selected: tuple[str, ...]
    runs: Path
    live_run: RunFolder | None
    named: tuple[RunFolder, ...]
    kind: str = SOAK
    errors: list[Exception] = field(default_factory=list)
    suffix: str = ""
    queued: tuple[tuple[RunFolder, Settings], ...] = ()
    told: set[str] = field(default_factory=set)

    def again(self, words: str) -> str:
        """``./doit <words>`` as it has to be typed to reach the same runs folder as this call."""
        return f"./doit {words}{self.suffix}"

    def goes_on(self, folder: RunFolder) -> str:
        """What goes on with a run."""
        return self.again(f"{self.kind_of(folder)} run={folder.run}")

    def shown(self) -> list[RunFolder]:
        """Runs that get tasks: those named, else the newest."""
        found = list(self.named) if self.named else newest_runs(self.runs)[:NEWEST]
        if self.live_run is not None and self.live_run not in found:
            found.append(self.live_run)
        return found

    def kind_of(self, folder: RunFolder) -> str:
        """The kind of a run, of the live one also before anything of it is on disk."""
        return self.kind if folder == self.live_run else kind_of_run(folder)

    def is_open(self, folder: RunFolder) -> bool:
        """Whether it is not yet known which rungs the live ladder has: then what follows them cannot be drawn."""
        live = folder == self.live_run and self.kind == LADDER
        return live and not folder.saved.exists() and not rungs.planned(folder).complete

    def is_drawn(self, folder: RunFolder, stage: str) -> bool:
        """Whether the stage can be drawn now."""
        if stage == "next-rung":
            planned = rungs.planned(folder)
            return planned.automatic and bool(planned.names)
        return receipts.is_live(stage) or not self.is_open(folder)

    def before(self, folder: RunFolder, stage: str | None) -> list[str]:
        """The tasks of the stage that comes before another one, as far as they are drawn.

        ``rungs`` are all rungs of a ladder; ``measured`` is the last stage before ``save``.
        """
        if stage == "measured":
            last = "next-rung" if self.is_drawn(folder, "next-rung") else "rungs"
            stage = last if self.kind_of(folder) == LADDER else "load"
        names = rungs.planned(folder).names or ("workload",) if stage == "rungs" else (stage,)
        over = folder.saved.exists()
        return [receipts.task_of(folder.run, name) for name in names if name and not (over and receipts.is_live(name))]

    def last_tasks(self, kind: str) -> list[str]:
        """What the whole of the live run comes to, as far as it can be drawn now; nothing for a run of another kind."""
        folder = self.live_run
        if folder is None or kind != self.kind:
            return []
        if not self.is_open(folder):
            return [receipts.task_of(folder.run, "report")]
        return self.before(folder, "measured")

    def per_run(self) -> Iterator[Invocation]:
        """This call, then one for each further ladder: the other tasks that were asked for are the first one's."""
        yield self
        options = tuple(item for item in self.doit_arguments if item.startswith("-") or item.isdigit())  # -v 2
        for folder, settings in self.queued:
            yield replace(
                self,
                settings=settings,
                doit_arguments=(*options, LADDER),
                selected=(LADDER,),
                live_run=folder,
                named=(),
                errors=[],
                queued=(),
                told=set(),
            )


_current: list[Invocation] = []


def set_current(invocation: Invocation) -> None:
    """Make ``invocation`` the one that dodo.py sees."""
    _current[:] = [invocation]


def current() -> Invocation:
    """The invocation that runs. Raises UsageError when doit was not entered through ``harness.entry``."""
    if not _current:
        raise UsageError("the graph has no invocation; start it with ./doit")
    return _current[0]


def entered() -> bool:
    """True when doit was entered through ``harness.entry``."""
    return bool(_current)


def parse(arguments: list[str], environment: Mapping[str, str], toml: Path) -> Invocation:
    """Split, check and resolve a command line. Raises UsageError; nothing is started or written."""
    variables = dict(item.split("=", 1) for item in arguments if not item.startswith("-") and "=" in item)
    doit_arguments = [item for item in arguments if item.startswith("-") or "=" not in item]
    words = _words(doit_arguments)
    settings = settings_module.load(toml, environment, variables)
    command = words[0] if words and words[0] in COMMANDS | REFUSED_COMMANDS else "run"
    if words[:1] == [command] != doit_arguments[:1]:  # doit takes its command first
        doit_arguments = [*words, *_options(doit_arguments, command)]
    if command in REFUSED_COMMANDS:
        raise UsageError(f"doit {command} has no use here: receipts are the state; try ./doit list or ./doit info TASK")
    _check_options(doit_arguments)
    selected = tuple(words[1:] if words and words[0] == command else words)
    _check_stages(command, selected)
    runs = Path(settings.runs)
    kind = _kind(command, selected, runs)
    _check_keys(variables, [item for item in selected if item in SETTLED] or ([kind] if kind else []), settings)
    live = _live_runs(settings, variables, command, selected, runs, kind)
    folder, settings = live[0] if live else (None, settings)
    named = tuple(RunFolder(runs / run) for run in _named_runs(selected, runs))
    suffix = f" runs={shlex.quote(variables['runs'])}" if "runs" in variables else ""
    return Invocation(
        settings,
        tuple(doit_arguments),
        command,
        selected,
        runs,
        folder,
        named,
        kind=kind or SOAK,
        suffix=suffix,
        queued=tuple(live[1:]),
    )


def _words(arguments: list[str]) -> list[str]:
    """Commands and tasks: neither options nor the 2 of ``-v 2``."""
    pairs = zip(["", *arguments], arguments, strict=False)
    return [item for before, item in pairs if not item.startswith("-") and before not in WITH_VALUE]


def _options(arguments: list[str], command: str) -> list[str]:
    """The options of a command that came after them; how much is told, ``-v 2``, only ``run`` lets itself be told."""
    pairs = zip(["", *arguments], arguments, strict=False)
    found = [item for before, item in pairs if item.startswith("-") or before in WITH_VALUE]
    if command == "run":
        return found
    pairs = zip(["", *found], found, strict=False)
    return [item for before, item in pairs if item not in WITH_VALUE and before not in WITH_VALUE]


def _check_options(arguments: list[str]) -> None:
    if any(item.startswith(("-n", "--process", "-P", "--parallel", "--db-file", "--backend")) for item in arguments):
        raise UsageError(
            "stages run one after another, on their own receipts: -n, -P, --db-file and --backend are refused"
        )
    for item in arguments:
        if item.startswith("-") and item.partition("=")[0] not in OPTIONS:
            raise UsageError(
                f"{item} is no option here; settings are given as key=value, and ./doit help lists commands"
            )


def _check_stages(command: str, selected: tuple[str, ...]) -> None:
    if command == "info" and len(selected) != 1:
        raise UsageError("info of which task? ./doit info gate:RUN says why it would run, or not")
    for item in selected if command == "run" else ():
        name = item.partition(":")[0]
        if name not in TASKS:
            near = difflib.get_close_matches(name, TASKS, n=1)
            raise UsageError(
                f"there is no task {item!r}; " + (f"did you mean {near[0]}?" if near else "./doit list shows them")
            )
    bare = [item for item in selected if item in receipts.STAGES or item in ("teardown", "free-check")]
    if command == "run" and bare:
        makes = {"free-check": f"{LADDER} arm={REALISM}", "workload": LADDER, "next-rung": LADDER}.get(bare[0], SOAK)
        raise UsageError(
            f"{bare[0]} of which run? ./doit {bare[0]}:RUN; ./doit shows the last runs, ./doit {makes} makes one"
        )


def _named_runs(selected: tuple[str, ...], runs: Path) -> list[str]:
    found: list[str] = []
    for item in selected:
        stage, colon, run = item.partition(":")
        stage, run = (LADDER, run.partition(":")[0]) if stage == LADDER else (stage, run)
        if colon and (stage in receipts.STAGES or stage in (LADDER, "teardown", "free-check")):
            if not (runs / check_run_id(run)).is_dir():
                raise UsageError(
                    f"there is no run {run} in {runs}{os.sep}; ./doit list --all shows those that are there"
                )
            if stage == "teardown" and RunFolder(runs / run).adopted.exists():
                raise UsageError(f"run {run} was adopted: nothing of it runs here; ./doit gate:{run} grades it")
            if run not in found:
                found.append(run)
    return found


def _kind(command: str, selected: tuple[str, ...], runs: Path) -> str | None:
    """The kind of run that may be started or gone on with; None where nothing live is asked for. Raises UsageError."""
    kinds = {item for item in selected if item in (SOAK, LADDER)} if command != "help" else set()
    kinds |= {LADDER for item in selected if item in ("e8-soak", "e8-lag-check")}
    kinds |= {kind_of_run(RunFolder(runs / run)) for run in _live_names(selected)}
    if len(kinds) > 1:
        raise UsageError(f"one load at a time: {' and '.join(sorted(kinds))} are two commands")
    return next(iter(kinds), None)


def _live_names(selected: tuple[str, ...]) -> list[str]:
    """Runs of which a live stage is asked for by name, each once."""
    found = (receipts.parse_task(item) for item in selected)
    return list(dict.fromkeys(each[0] for each in found if each and receipts.is_live(each[1])))


def _check_keys(variables: Mapping[str, str], tasks: list[str], settings: Settings) -> None:
    """Refuse a setting that means nothing to what is asked for: unheard, it would be believed."""
    for key in variables if tasks else ():
        if not any(settings_module.means_to(key, task) for task in tasks):
            other = next(task for task in SETTLED if settings_module.means_to(key, task))
            raise SettingsError(f"{key}= means nothing to ./doit {tasks[0]}: it goes with ./doit {other}")
    if tasks == ["e8-soak"]:
        _check_arms(variables, [settings.arm if settings.arm in ARMS else CAPACITY])


def _check_arms(variables: Mapping[str, str], arms: list[str]) -> None:
    """Refuse a setting of the other arm."""
    if REALISM not in arms and (keys := settings_module.REALISM_KEYS & variables.keys()):
        raise SettingsError(
            f"{min(keys)}= means nothing to the {arms[0]} arm, which rests on no recorded duty: it goes with "
            f"arm={REALISM}"
        )


def _live_runs(
    settings: Settings,
    variables: Mapping[str, str],
    command: str,
    selected: tuple[str, ...],
    runs: Path,
    kind: str | None,
) -> list[tuple[RunFolder, Settings]]:
    """The runs that this call starts or goes on with, with their settings. Raises UsageError."""
    by_name = _live_names(selected)
    whole = SOAK in selected or LADDER in selected
    if not whole and "run" in variables:
        raise SettingsError(
            "run=ID goes with soak and e8: ./doit soak run=ID; for one stage of a run type ./doit gate:ID"
        )
    if whole and command == "help":
        return []
    if by_name:
        if len(by_name) > 1 or (whole and settings.run not in by_name):
            raise UsageError("one load at a time: name one run")
        return [_resumed(RunFolder(runs / check_run_id(by_name[0])), settings, variables, runs, str(kind), whole=whole)]
    if not whole or (not settings.run and command != "run"):
        return []
    if kind == SOAK:
        run = settings.run or new_run_id(settings.profile)
        return [_resumed(RunFolder(runs / check_run_id(run)), settings, variables, runs, SOAK, whole=True)]
    found, arms = [], _arms(settings, runs, explicit="arm" in variables)
    _check_arms(variables, arms)
    for arm in arms:
        run = _ladder_run(settings.run or new_run_id(LADDER), arm)
        own = {**variables, "arm": arm}
        asked = replace(settings, arm=arm)
        found.append(_resumed(RunFolder(runs / check_run_id(run)), asked, own, runs, LADDER, whole=True))
    return found


def _ladder_run(name: str, arm: str) -> str:
    """A ladder's run names its arm, so that no reader has to look it up."""
    return name if name.endswith(f"-{arm}") else f"{name}-{arm}"


def _arms(settings: Settings, runs: Path, *, explicit: bool) -> list[str]:
    """The arms to climb: of a run that names one, that; of one that is there, those it has. Raises UsageError."""
    named = [arm for arm in ARMS if settings.run.endswith(f"-{arm}")]
    if named and (settings.arm not in ("both", named[0]) or (explicit and settings.arm == "both")):
        raise UsageError(
            f"run={settings.run} names the {named[0]} arm, and arm={settings.arm} says another thing: leave one out"
        )
    if named:
        return named
    there = [arm for arm in ARMS if settings.run and (runs / f"{settings.run}-{arm}").exists()]
    return there if there and settings.arm == "both" else [arm for arm in ARMS if settings.arm in ("both", arm)]


def _resumed(
    folder: RunFolder, settings: Settings, variables: Mapping[str, str], runs: Path, kind: str, *, whole: bool
) -> tuple[RunFolder, Settings]:
    """A run with the settings it goes on with: its own, where it was begun. Raises UsageError."""
    if not folder.run_json.exists():
        _refuse_near_names(folder, runs)
        return folder, settings
    run, found = folder.run, kind_of_run(folder)
    if found != kind:
        raise UsageError(f"run {run} is no {kind}: ./doit {found} run={run} goes on with it")
    if not whole and folder.saved.exists():
        raise UsageError(f"run {run} is saved, its load is over; ./doit gate:{run} grades it")
    own = run_settings(folder)
    asked, kept = settings.flat(), own.flat()
    changed = [
        f"{key}={asked[key]} (it has {kept[key]})"
        for key in sorted(set(variables) - {"run", "runs"})
        if asked[key] != kept[key]
    ]
    if changed:
        raise SettingsError(
            f"run {run} goes on with its own settings, not with {', '.join(changed)}: "
            "leave that out, or name another run"
        )
    return folder, own


def _refuse_near_names(folder: RunFolder, runs: Path) -> None:
    names = {entry.name.lower(): entry.name for entry in runs.iterdir()} if runs.is_dir() else {}
    twin = names.get(folder.run.lower())
    if twin is not None and twin != folder.run:
        raise UsageError(f"run {twin} differs from {folder.run} only in upper and lower case; choose another name")
    if folder.root.exists() and any(not entry.name.endswith(".tmp") for entry in folder.root.iterdir()):
        raise BusyError(f"{folder.root} is there and holds no run.json: move it away, or choose another name")


def run_settings(folder: RunFolder) -> Settings:
    """The settings a run was started with. Raises EvidenceError when run.json is damaged."""
    try:
        values = read_json(folder.run_json)["settings"]
        return settings_module.build(values, str(folder.run_json))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, SettingsError) as error:
        raise EvidenceError(f"{folder.run_json}: does not say what this run is ({error})", run=folder.run) from error


def newest_runs(runs: Path) -> list[RunFolder]:
    """Runs, newest first by the folder's time. Nothing inside them is read."""
    try:
        entries = [entry for entry in os.scandir(runs) if entry.is_dir() and not entry.name.startswith(".")]
    except OSError:
        return []
    entries = [entry for entry in entries if entry.name not in RESERVED and RUN_ID.fullmatch(entry.name)]
    entries.sort(key=lambda entry: (entry.stat().st_mtime_ns, entry.name), reverse=True)
    return [RunFolder(Path(entry.path)) for entry in entries]
