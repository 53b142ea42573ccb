"""The graph: every stage of a run, what it reads, what it makes, and the function that does it.

    soak   plan → pins → preflight → engines → load → save → tables → gate → report
    e8     plan → pins → preflight → workload → rung c1 → c2 → … → save → tables → gate → report

A stage is done when its receipt is in runs/<run>/stages/. See docs/architecture.md.
"""

from harness import entry
from harness.graph import invocation

if not invocation.entered():
    entry.enter_from_plain_doit()

from harness.graph.backend import Sha256Checker
from harness.graph.reporter import StageReporter
from harness.graph.stage import stages
from harness.stages import (
    checks,
    chores,
    engines,
    gate,
    ladder,
    load,
    pins,
    plan,
    preflight,
    report,
    save,
    status,
    tables,
    teardown,
)
from harness.store.columns import LADDER, SOAK

NOW = invocation.current()

DOIT_CONFIG = {
    "default_tasks": ["status"],
    "reporter": StageReporter,
    "check_file_uptodate": Sha256Checker,
    "verbosity": 2,
}


def task_soak():
    """A full run: plan, pins, preflight, engines, load, save, tables, gate, report."""
    return {"actions": None, "task_dep": NOW.last_tasks(SOAK)}


def task_e8():
    """Ladders of concurrent turns: plan, pins, preflight, workload, each rung, save, tables, gate, report."""
    yield {"name": None, "doc": task_e8.__doc__, "task_dep": NOW.last_tasks(LADDER)}
    yield from ladder.rung.tasks(NOW)


def task_plan():
    """What the run is to be, written before anything is started."""
    return stages(NOW, "plan", soak=plan, ladder=ladder.plan, after=None)


def task_pins():
    """The versions and digests in use, held against the pin file."""
    return stages(NOW, "pins", soak=pins, ladder=pins, after="plan")


def task_preflight():
    """Every check that can be made before anything is started."""
    return stages(NOW, "preflight", soak=preflight, ladder=preflight, after="pins")


def task_engines():
    """Targets, proxies and engines up, readiness compared as numbers."""
    return stages(NOW, "engines", soak=engines, after="preflight")


def task_load():
    """The load, with churn and faults beside it: started once, followed, or attached to again."""
    return stages(NOW, "load", soak=load, after="engines")


def task_workload():
    """The ladder's target up and held against the rules of the arm; what a turn runs, prepared and measured."""
    return stages(NOW, "workload", ladder=ladder.workload, after="preflight")


def task_next_rung():
    """Of an automatic ladder: which rungs come next, from the records of those before."""
    yield {"basename": "next-rung", "name": None, "doc": task_next_rung.__doc__}
    yield from stages(NOW, "next-rung", ladder=ladder.next_rung, after="rungs")


def task_save():
    """Evidence, byte for byte, with SHA256SUMS and, last, SAVED."""
    return stages(NOW, "save", soak=save, ladder=save, after="measured")


def task_tables():
    """Parquet tables from the evidence."""
    return stages(NOW, "tables", soak=tables, ladder=tables, after="save")


def task_gate():
    """Grade the tables with the SQL gates; the verdict is stored beside the earlier ones."""
    return stages(NOW, "gate", soak=gate, ladder=gate, after="tables")


def task_report():
    """The page for people."""
    return stages(NOW, "report", soak=report, ladder=report, after="gate")


def task_teardown():
    """End what an unfinished run left running, and save what it had."""
    return teardown.tasks(NOW)


def task_e8_lag_check():
    """Whether a worker's loop lag tells a starved worker from an idle one, at 1 ms and at 10 ms."""
    return checks.lag_check(NOW)


def task_e8_soak():
    """One rung held for e8.soak_s: connections, descriptors and memory must not grow with the turns."""
    return checks.steady(NOW)


def task_free_check():
    """What a realism ladder's sandboxes used, beside what its duty foretold."""
    return checks.free_check(NOW)


def task_status():
    """The last runs and what to type next; starts nothing."""
    return status.task(NOW)


def task_test():
    """All tests."""
    return chores.task("test")


def task_lint():
    """ruff, mypy."""
    return chores.task("lint")


def task_verify_full():
    """Sweeps that are too long for CI; figures for docs/evidence.md."""
    return {**chores.task("verify-full"), "basename": "verify-full"}


def task_bench():
    """The engine against its peers on this machine, and how long a grading takes."""
    return chores.task("bench")
