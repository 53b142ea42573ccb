"""Every table: its columns, their types, what they mean. Here, and for ladders in ladder_schemas, a column is declared.

Tables are long: an unknown counter is a row, not a lost column. Integers are int64, times are UTC in microseconds,
a number that was not measured is NULL and never 0 or NaN. ``run`` is the first column of every table.
"""

from __future__ import annotations

from functools import cache

from harness.files import sha256_text
from harness.store.columns import Table, table
from harness.store.ladder_schemas import LADDER_TABLES

SCHEMA_VERSION = 5
"""Raised where rows come to mean something else. That a column came, went or changed its type, ``schema_of`` says."""

TABLES: dict[str, Table] = {
    each.name: each
    for each in (
        table(
            "runs",
            "One row: what the run is, what its evidence holds, and the limits it was made with.",
            """
            schema_version    int64!
            run_tag           text
            kind              text
            profile           text
            fleet             text
            created_at        timestamp
            backends          int64!     N: how many backends the plan wants
            duration_s        int64      run.env; NULL when it does not say
            nodes_listed      int64!     rows of engines.tsv
            targets_planned   int64!     rows of shares.tsv
            rolls_planned     int64!     rows of schedule.tsv
            limits_planned    int64!     rows of plan_thresholds
            source            text!      report | stream | nighthawk | k6
            skipped_lines     int64!     lines of the stream that are no execution
            report_pass       bool       NULL: absent, always so in a stream
            log_present       bool!
            log_skip_lines    int64!
            log_summary       text
            log_not_run       int64
            schedule_present  bool!
            churn_log_present bool!
            floor_pct         int64!     P: a survivor's 2xx count must be within P and 200 - P % of the planned one
            max_send_delay_ms double     limit of the engines' own lateness; NULL: the run has none
            contradiction     text       where two files say different things of the run; NULL: nowhere
            """,
        ),
        table(
            "plan_targets",
            "The share table, in its order: what one node sends each target.",
            """
            target_no int64!
            target    text!
            label     text!      of its execution: <scenario>/<target>
            rate_rps  int64!
            url       text
            """,
        ),
        table(
            "plan_nodes",
            "The engine list, in its order.",
            """
            node_no int64!
            ip      text!
            node    text!
            engine  text
            """,
        ),
        table(
            "plan_rolls",
            "The schedule.",
            """
            roll_no int64!
            at_s    double!
            kind    text!
            name    text!
            """,
        ),
        table(
            "plan_thresholds",
            "The thresholds that the plan states for every target.",
            """
            expr text!
            """,
        ),
        table(
            "executions",
            "One row per execution of the report or stream, in its order.",
            """
            exec_no         int64!
            label           text!
            rate_rps        int64
            duration_ms     int64
            elapsed_ms      int64
            started_at      timestamp
            ended_at        timestamp
            passed          bool
            not_run         bool!
            refused         text
            has_refused_key bool!
            error           text
            total_http_2xx  int64
            contradiction   text       where the report says different things of it, or another file does; NULL: nowhere
            """,
        ),
        table(
            "backends",
            "One row per backend of an execution: dispatched, answered, listed in error, or any mix of these.",
            """
            exec_no           int64!
            backend_no        int64!
            backend           text!
            ip                text!
            node              text!
            dispatched        bool!
            returned          bool!
            in_error          bool!
            error             text
            error_refused     text
            elapsed_ms        int64
            started_at        timestamp
            bad_counters      text       why its counters cannot be read; NULL: they can
            planned_requests  int64
            released_requests int64
            """,
        ),
        table(
            "counters",
            "Counters as reported; one that never moved is absent, see capabilities for what absence means.",
            """
            exec_no    int64!
            backend_no int64!
            backend    text!
            node       text!
            counter    text!
            value      int64      NULL: not a whole number
            """,
        ),
        table(
            "capabilities",
            "What the producer of the report counts: an absent counter that is counted is 0, else it is not measured.",
            """
            counter text!
            counted bool!
            """,
        ),
        table(
            "statistics",
            "Distributions as reported; unit is ns or raw.",
            """
            exec_no    int64!
            backend_no int64!
            backend    text!
            node       text!
            statistic  text!
            unit       text
            count      int64
            mean       double
            pstdev     double
            min        double
            max        double
            p50        double
            p90        double
            p99        double
            p99_9      double
            """,
        ),
        table(
            "thresholds",
            "Thresholds as the driver judged them.",
            """
            exec_no      int64!
            threshold_no int64!
            expr         text!
            scope        text
            passed       bool
            actual       text
            """,
        ),
        table(
            "threshold_actuals",
            "What each backend had for a threshold; only where the driver's text lists one value for each survivor.",
            """
            exec_no      int64!
            threshold_no int64!
            backend_no   int64!
            backend      text!
            node         text!
            actual       text!
            holds        bool!
            """,
        ),
        table(
            "events",
            "What happened beside the load: rolls and faults.",
            """
            event_no int64!
            source   text!      churn | faults
            at       timestamp
            at_s     double     seconds after the load's start
            outcome  text!      ROLLED, FAILED, ABORTED, START, COMPLETE, or the word of the line
            kind     text
            name     text
            took_ms  double
            detail   text
            """,
        ),
        table(
            "progress",
            "The driver's counts while it ran; http_2xx is cumulative, p50 to max are of the interval.",
            """
            at        timestamp
            elapsed_s double
            label     text
            node      text
            backend   text
            http_2xx  int64
            failures  int64
            count     int64
            p50_ns    int64
            p99_ns    int64
            max_ns    int64
            """,
        ),
        table(
            "access",
            "The proxies' access logs.",
            """
            node        text!
            at          timestamp
            authority   text
            path        text
            code        int64
            flags       text
            details     text
            duration_ms int64
            cluster     text
            upstream    text
            """,
        ),
        table(
            "resources",
            "CPU and memory of the run's processes; cpu_s is cumulative per pid.",
            """
            at        timestamp
            name      text
            kind      text
            node      text
            pid       int64
            cpu_s     double
            rss_bytes int64
            """,
        ),
        table(
            "histograms",
            "Distributions in full: HdrHistogram V2, base64, nanoseconds.",
            """
            label     text!
            node      text!
            backend   text!
            statistic text!
            hdr       text!
            """,
        ),
        *LADDER_TABLES,
    )
}


@cache
def schema_of(kind: object) -> str:
    """The SHA-256 of what is declared for runs of this kind: tables, columns and types, whatever is told of them."""
    declared = [
        f"{each.name}.{column.name} {column.type} {column.required}"
        for each in TABLES.values()
        if each.kind == kind
        for column in each.columns
    ]
    return sha256_text("\n".join([f"version {SCHEMA_VERSION}", *declared]))
