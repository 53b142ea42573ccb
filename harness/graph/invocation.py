"""What was asked for: the command line split into doit's part and settings, and the runs it concerns."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness import settings as settings_module
from harness.errors import BusyError, EvidenceError, SettingsError, UsageError
from harness.files import read_json
from harness.graph import receipts
from harness.runs import RESERVED, RUN_ID, RunFolder, check_run_id, new_run_id
from harness.settings import Settings

COMMANDS = frozenset({"run", "list", "info", "help", "tabcompletion"})
REFUSED_COMMANDS = frozenset({"clean", "forget", "ignore", "dumpdb", "strace", "reset-dep"})
OPTIONS = frozenset(
    {"-a", "--always-execute", "-c", "--continue", "-v", "--verbosity", "--all", "-q", "--quiet", "--status", "-p",
     "--private", "--deps", "--template", "--sort", "--no-status", "--shell", "--help", "--version"}
)  # fmt: skip
TASKS = (*receipts.STAGES, "soak", "teardown", "status", "test", "lint", "verify-full", "bench")
LIVE_STAGES = ("plan", "pins", "preflight", "engines", "load")
NEWEST = 50  # runs that get tasks of their own when the command line names none


@dataclass(frozen=True)
class Invocation:
    """One call of ``doit``. ``soak_run`` is the run whose live stages may be started, if any."""

    settings: Settings
    doit_arguments: tuple[str, ...]
    command: str
    selected: tuple[str, ...]
    runs: Path
    soak_run: RunFolder | None
    named: tuple[RunFolder, ...]
    errors: list[Exception] = field(default_factory=list)
    suffix: str = ""

    def again(self, words: str) -> str:
        """``./doit <words>`` as it has to be typed to reach the same runs folder as this call."""
        return f"./doit {words}{self.suffix}"

    def shown(self) -> list[RunFolder]:
        """Runs that get tasks: those named, else the newest."""
        found = list(self.named) if self.named else newest_runs(self.runs)[:NEWEST]
        if self.soak_run is not None and self.soak_run not in found:
            found.append(self.soak_run)
        return found


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
    words = [item for item in doit_arguments if not item.startswith("-")]
    settings = settings_module.load(toml, environment, variables)
    command = words[0] if words and words[0] in COMMANDS | REFUSED_COMMANDS else "run"
    if command in REFUSED_COMMANDS:
        raise UsageError(f"doit {command} has no use here: receipts are the state; try ./doit list or ./doit info TASK")
    _check_options(doit_arguments)
    selected = tuple(words[1:] if words and words[0] == command else words)
    _check_stages(command, selected)
    runs = Path(settings.runs)
    soak_run, settings = _soak_run(settings, variables, command, selected, runs)
    named = tuple(RunFolder(runs / run) for run in _named_runs(selected, runs))
    suffix = f" runs={shlex.quote(variables['runs'])}" if "runs" in variables else ""
    return Invocation(settings, tuple(doit_arguments), command, selected, runs, soak_run, named, suffix=suffix)


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
        if name not in TASKS and not name.isdigit():  # a digit is the value of -v
            near = difflib.get_close_matches(name, TASKS, n=1)
            raise UsageError(
                f"there is no task {item!r}; " + (f"did you mean {near[0]}?" if near else "./doit list shows them")
            )
    bare = [item for item in selected if item in receipts.STAGES or item == "teardown"]
    if command == "run" and bare:
        raise UsageError(
            f"{bare[0]} of which run? ./doit {bare[0]}:RUN; ./doit shows the last runs, ./doit soak makes one"
        )


def _named_runs(selected: tuple[str, ...], runs: Path) -> list[str]:
    found: list[str] = []
    for item in selected:
        stage, colon, run = item.partition(":")
        if colon and (stage in receipts.STAGES or stage == "teardown"):
            if not (runs / check_run_id(run)).is_dir():
                raise UsageError(
                    f"there is no run {run} in {runs}{os.sep}; ./doit list --all shows those that are there"
                )
            if stage == "teardown" and RunFolder(runs / run).adopted.exists():
                raise UsageError(f"run {run} was adopted: nothing of it runs here; ./doit gate:{run} grades it")
            if run not in found:
                found.append(run)
    return found


def _soak_run(
    settings: Settings, variables: Mapping[str, str], command: str, selected: tuple[str, ...], runs: Path
) -> tuple[RunFolder | None, Settings]:
    live = {item.partition(":")[2] for item in selected if item.partition(":")[0] in LIVE_STAGES and ":" in item}
    if "soak" in selected:
        live.add(settings.run)
    elif "run" in variables:
        raise SettingsError("run=ID goes with soak: ./doit soak run=ID; for one stage of a run type ./doit gate:ID")
    if not live:
        return None, settings
    if len(live) > 1:
        raise UsageError("one load at a time: name one run")
    run = live.pop()
    if not run:
        return (RunFolder(runs / new_run_id(settings.profile)) if command == "run" else None), settings
    folder = RunFolder(runs / check_run_id(run))
    if not folder.run_json.exists():
        _refuse_near_names(folder, runs)
        return folder, settings
    if "soak" not in selected and folder.saved.exists():
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
