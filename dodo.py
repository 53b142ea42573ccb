"""The graph: every stage of a run, what it reads, what it makes, and the function that does it.

    soak   plan → pins → preflight → engines → load → save → tables → gate → report

A stage is done when its receipt is in runs/<run>/stages/. See docs/architecture.md.
"""

from harness import entry
from harness.graph import invocation

if not invocation.entered():
    entry.enter_from_plain_doit()

from harness.graph.backend import Sha256Checker
from harness.graph.reporter import StageReporter
from harness.graph.stage import stages
from harness.stages import chores, engines, gate, load, pins, plan, preflight, report, save, status, tables, teardown

NOW = invocation.current()

DOIT_CONFIG = {
    "default_tasks": ["status"],
    "reporter": StageReporter,
    "check_file_uptodate": Sha256Checker,
    "verbosity": 2,
}


def task_soak():
    """A full run: plan, pins, preflight, engines, load, save, tables, gate, report."""
    return {"actions": None, "task_dep": [f"report:{NOW.soak_run.run}"] if NOW.soak_run else []}


def task_plan():
    """Targets, shares, queue, floor, thresholds and schedule, written before anything is started."""
    return stages(NOW, "plan", plan.work, reads=plan.reads, makes=plan.makes, after=None)


def task_pins():
    """The versions and digests in use, held against the pin file."""
    return stages(NOW, "pins", pins.work, reads=pins.reads, makes=pins.makes, after="plan")


def task_preflight():
    """Every check that can be made before anything is started."""
    return stages(NOW, "preflight", preflight.work, reads=preflight.reads, makes=preflight.makes, after="pins")


def task_engines():
    """Targets, proxies and engines up, readiness compared as numbers."""
    return stages(
        NOW, "engines", engines.work, reads=engines.reads, makes=engines.makes, after="preflight", intact=engines.intact
    )


def task_load():
    """The load, with churn and faults beside it: started once, followed, or attached to again."""
    return stages(NOW, "load", load.work, reads=load.reads, makes=load.makes, after="engines")


def task_save():
    """Evidence, byte for byte, with SHA256SUMS and, last, SAVED."""
    return stages(NOW, "save", save.work, reads=save.reads, makes=save.makes, after="load")


def task_tables():
    """Parquet tables from the evidence."""
    return stages(
        NOW, "tables", tables.work, reads=tables.reads, makes=tables.makes, after="save", intact=tables.intact
    )


def task_gate():
    """Grade the tables with the SQL gates; the verdict is stored beside the earlier ones."""
    return stages(NOW, "gate", gate.work, reads=gate.reads, makes=gate.makes, after="tables")


def task_report():
    """The page for people."""
    return stages(NOW, "report", report.work, reads=report.reads, makes=report.makes, after="gate")


def task_teardown():
    """End what an unfinished run left running, and save what it had."""
    return teardown.tasks(NOW)


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
