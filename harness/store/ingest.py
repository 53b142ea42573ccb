"""Evidence → tables: everything that was saved, checked and read, as Parquet that can be deleted and made again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.files import fsync_folder, sha256_file
from harness.store import contradictions, ladder_files, readers, side_rows
from harness.store.columns import LADDER
from harness.store.driver_log import DriverLog, read_driver_log
from harness.store.kinds import kind_of
from harness.store.ladder_evidence import read_ladder_evidence
from harness.store.own_run import OwnRun, read_own
from harness.store.parquet import Row, write_table
from harness.store.report_rows import choose_source, report_rows
from harness.store.schemas import SCHEMA_VERSION, TABLES
from harness.store.source import Source
from harness.store.stated import Stated, StatedStream, read_dates, read_stream_statement, read_times_statement
from harness.store.stated_plan import read_plan_statement
from harness.store.sums import digests

SCENARIO = "mesh"


def build_tables(
    evidence: Path, tables: Path, *, run: str, stream: bool = False, scenario: str = SCENARIO
) -> dict[str, dict[str, Any]]:
    """Make every table that a run of its kind has, in the folder ``tables``, which is replaced as a whole.

    Returns table name → ``{"rows": int, "sha256": hex}``; the same evidence always gives the same bytes. With
    ``stream`` the results stream of a run without report is read. Raises EvidenceError (or ReportFormatError), one
    sentence with the file's name, when the evidence was changed since it was saved, is another run's or is not what it
    should be; ``tables`` is then as it was. Raises OSError when the disk is full.
    """
    sources = digests(evidence)
    if kind_of(evidence) == LADDER:
        return _write(tables, run, ladder_rows(evidence, run=run, files=sources), lambda _: sources)
    own = read_own(evidence, run=run, digests=sources)
    source = choose_source(evidence, stream=stream, scenario=scenario)
    rows = _all_rows(evidence, own, source, scenario)
    return _write(
        tables, run, rows, lambda name: {file: sources[file] for file in sorted(sources) if _feeds(name, file, source)}
    )


def ladder_rows(evidence: Path, *, run: str, files: Mapping[str, str]) -> Mapping[str, Iterable[Row]]:
    """The rows of a ladder's tables; turns and polls are read when their rows are. Raises EvidenceError."""
    return {
        **read_ladder_evidence(evidence, run=run, files=files).rows,
        "turns": ladder_files.turn_rows(evidence, files),
        "polls": ladder_files.poll_rows(evidence, files),
    }


def _write(
    tables: Path, run: str, rows: Mapping[str, Iterable[Row]], read: Callable[[str], Mapping[str, str]]
) -> dict[str, dict[str, Any]]:
    """The tables that ``rows`` are of, written beside ``tables``, then put in its place. ``read``: table → sources."""
    fresh = tables.with_name(f".{tables.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        made = {}
        for name in rows:
            path = fresh / f"{name}.parquet"
            count = write_table(path, TABLES[name], rows[name], run=run, sources=read(name))
            _sync(path)
            made[name] = {"rows": count, "sha256": sha256_file(path)}
        fsync_folder(fresh)
        shutil.rmtree(tables, ignore_errors=True)
        fresh.rename(tables)
        fsync_folder(tables.parent)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    return made


def _all_rows(evidence: Path, own: OwnRun, source: Source, scenario: str) -> dict[str, Iterable[Row]]:
    env = readers.read_env(evidence / "run.env")
    shares = readers.read_shares(evidence / "shares.tsv")
    engines = readers.read_engines(evidence / "engines.tsv") if (evidence / "engines.tsv").exists() else []
    nodes = {engine.ip: engine.node for engine in engines}
    schedule = evidence / "schedule.tsv"
    rolls = readers.read_schedule(schedule) if schedule.exists() else []
    stated = _stated(evidence, own, env, shares, source, scenario)
    thresholds = list(dict.fromkeys(stated.plan.thresholds))
    planned = {
        "nodes_listed": len(engines),
        "targets_planned": len(shares),
        "rolls_planned": len(rolls),
        "limits_planned": len(thresholds),
    }
    listed = len(engines) if (evidence / "engines.tsv").exists() else None
    report = report_rows(source, nodes, stated)
    targets = [
        {
            "target_no": number,
            "target": share.target,
            "label": f"{scenario}/{share.target}",
            "rate_rps": share.rate_rps,
            "url": share.url,
        }
        for number, share in enumerate(shares, start=1)
    ]
    return {
        "runs": [_run_row(evidence, own, env, source, stated, listed) | planned],
        "plan_targets": targets,
        "plan_nodes": [
            {"node_no": number, "ip": engine.ip, "node": engine.node, "engine": engine.name}
            for number, engine in enumerate(engines, start=1)
        ],
        "plan_rolls": [
            {"roll_no": number, "at_s": roll.at_s, "kind": roll.kind, "name": roll.name}
            for number, roll in enumerate(rolls, start=1)
        ],
        "plan_thresholds": [{"expr": expr} for expr in thresholds],
        "executions": report.executions,
        "backends": report.backends,
        "counters": report.counters,
        "capabilities": [
            {"counter": name, "counted": counted} for name, counted in _capabilities(source, stated).items()
        ],
        "statistics": report.statistics,
        "thresholds": report.thresholds,
        "threshold_actuals": report.threshold_actuals,
        "events": side_rows.event_rows(evidence),
        "progress": side_rows.progress_rows(evidence / "progress.jsonl", nodes),
        "access": side_rows.access_rows(evidence),
        "resources": side_rows.resource_rows(evidence / "resources.jsonl"),
        "histograms": side_rows.histogram_rows(evidence / "histograms.jsonl", nodes),
    }


def _stated(
    evidence: Path,
    own: OwnRun,
    env: Mapping[str, str],
    shares: list[readers.Share],
    source: Source,
    scenario: str,
) -> Stated:
    """What the other files say of what is graded. A log or a stream that is what is graded says nothing beside it.

    A run of ours may be planned long before it is driven, and says by digests which plan it is of.
    """
    log, is_report = evidence / "sortie.log", source.kind == "report"
    backends = readers.positive(dict(env), "BACKENDS", "run.env")
    return Stated(
        backends=backends,
        shares={f"{scenario}/{share.target}": share for share in shares},
        plan=read_plan_statement(evidence / "plan.yaml", scenario, backends=backends),
        log=read_driver_log(log) if log.exists() else DriverLog(),
        stream=read_stream_statement(evidence / "results.jsonl") if is_report else StatedStream(),
        times=read_times_statement(evidence / "times.tsv") if is_report else {},
        dated={} if own.plan_is_known else read_dates(env),
    )


def _capabilities(source: Source, stated: Stated) -> Mapping[str, bool]:
    """A closed loop waits for a slow mesh instead of counting what it did not send."""
    closed = {"benchmark.pool_overflow": False, "driver.open_loop": False} if stated.plan.open_loop is False else {}
    return {**source.capabilities, **closed}


def _run_row(
    evidence: Path, own: OwnRun, env: Mapping[str, str], source: Source, stated: Stated, engines: int | None
) -> dict[str, Any]:
    seen = stated.log
    duration_s = readers.positive(dict(env), "DURATION_S", "run.env") if "DURATION_S" in env else None
    return {
        "schema_version": SCHEMA_VERSION,
        "run_tag": env.get("RUN_TAG"),
        "kind": readers.text(own.about.get("kind")),
        "profile": readers.text(own.about.get("profile")) or env.get("MODE"),
        "fleet": readers.text(own.about.get("fleet")) or env.get("CTX"),
        "created_at": readers.moment(own.about.get("created_at")),
        "backends": stated.backends,
        "duration_s": duration_s,
        "source": source.kind,
        "skipped_lines": source.skipped_lines,
        "report_pass": source.passed,
        "log_present": (evidence / "sortie.log").exists(),
        "log_skip_lines": seen.skip_lines,
        "log_summary": seen.summary,
        "log_not_run": seen.not_run,
        "schedule_present": (evidence / "schedule.tsv").exists(),
        "churn_log_present": (evidence / "churn.log").exists(),
        "floor_pct": own.floor_pct,
        "max_send_delay_ms": own.max_send_delay_ms,
        "contradiction": contradictions.of_run(source, stated, duration_s=duration_s, engines=engines),
    }


def _feeds(table: str, file: str, source: Source) -> bool:
    """Whether ``file`` is among the sources of ``table``, for the table's metadata."""
    report = {source.file, "engines.tsv", *source.files}
    stated = {"run.env", "plan.yaml", "shares.tsv", "sortie.log"}
    fed = {
        "runs": report | stated | {"run.json", "schedule.tsv", "results.jsonl", "times.tsv"},
        "executions": report | stated | {"results.jsonl", "times.tsv"},
        "plan_targets": {"shares.tsv"},
        "plan_nodes": {"engines.tsv"},
        "plan_rolls": {"schedule.tsv"},
        "plan_thresholds": {"plan.yaml"},
        "events": {"churn.log", "faults.log"},
        "progress": {"progress.jsonl", "engines.tsv"},
        "resources": {"resources.jsonl"},
        "histograms": {"histograms.jsonl", "engines.tsv"},
        "capabilities": {source.file, *source.files, "plan.yaml"},
    }
    if table == "access":
        return file.startswith("access-")
    return file in fed.get(table, report)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
