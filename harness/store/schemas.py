"""Every table: its columns, their types, what they mean. The one place where a column is declared.

Tables are long: an unknown counter is a row, not a lost column. Integers are int64, times are UTC in microseconds,
a number that was not measured is NULL and never 0 or NaN. ``run`` is the first column of every table.
"""

from __future__ import annotations

from harness.store.columns import LADDER, Table, table

SCHEMA_VERSION = 5

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
        table(
            "ladders",
            "One row for each ladder of rungs: its arm, and what has to be known of the target to judge it.",
            """
            arm               text      realism or capacity
            measured          text      embedded, or the target's base URL; NULL: nobody asked the target
            workers           int64     W
            turns_per_worker  int64     S: turns in flight that one worker may hold
            cap               int64     leases per sandbox
            pool              int64     sandboxes, as the target sees them
            cores             int64     of the target
            stub_url          text      the model stub, as the driver knows it
            stub_url_echoed   text      the model endpoint that the target says it uses
            ttft_ms           double    of the stub: before its first token
            token_delay_ms    double    of the stub: after each token
            output_tokens     double    of the stub
            tool_call_rate    double    of the stub: tool calls per request
            basis             text      row of the duty, or none (capacity arm)
            duty              double    share of a turn in which its sandbox is busy, measured before the ladder
            duty_second       double    the same by a second probe
            execs_per_turn    double    counted before the ladder
            turns_per_client  int64     each client sends this many in a rung
            success_by        text      stop reason, or status alone
            lag_resolution_ms double    of the workers' event-loop histogram
            lag_discriminates bool      a starved worker's lag was shown to differ from an idle one's
            host_rest_pct     double    use of the target's cores without load
            rss_budget_bytes  int64     of a worker; NULL: none
            degrade_x         double    p95 bound as a multiple of the p95 at c=1; NULL: the usual one
            min_c             int64     least knee; NULL: the usual one
            planned           text      rungs that were to be measured; NULL: not known
            source_title      text      who published it; NULL: measured or adopted here
            source_where      text      where the source says it
            unusable          text!     facts that cannot be used, as JSON
            contradiction     text      where the record says two things of one rung; NULL: nowhere
            """,
            LADDER,
        ),
        table(
            "rungs",
            "A row for each rung and repeat of it. CPU is the rung's own; what follows from it is worked out.",
            """
            c                       int64!    clients, each with one turn in flight
            repeat                  int64!    1 is the first
            ended                   text      all turns, time is up, rung deadline
            turns_per_client        int64     each client was to send this many
            attempts                int64     turns sent, the warm-up apart
            ok                      int64     turns that succeeded
            success_rate            double    ok / attempts
            refused_429             int64     at admission
            refused_503             int64     no lease to be had
            errors_in_200           int64     answered 200 with a stop reason that is an error
            timed_out               int64     no whole answer before the deadline
            failed_otherwise        int64     any other way
            connections_per_turn    double    of the client
            wall_ms                 double    from the first turn's start to the last one's end
            throughput_tps          double    successful turns per second
            p50_ms                  double    of successful turns
            p95_ms                  double    of successful turns, nearest rank
            achieved_c              double    sum of latencies / wall
            execs                   int64     commands run in sandboxes
            worker_cpu_s            double    of all workers
            supervisor_cpu_s        double    of the supervisor
            sandbox_cpu_s           double    of all sandboxes
            stub_cpu_s              double    of the model stub
            relay_cpu_s             double    of the exec relay
            store_cpu_s             double    of the session and lease store
            host_cpu_s              double    not idle
            generator_cpu_s         double    of the load generator
            generator_lag_p99_ms    double    of the load generator's event loop
            sandbox_util_pct        double    of the pool
            worker_cpu_util_pct     double    of min(W, cores)
            worker_cpu_util_box_pct double    of the target's cores
            host_cpu_util_pct       double    of the target's cores
            worker_cpu_ms_per_turn  double    per successful turn
            worker_tier_cores       double    min(W, cores)
            lag_p99_worst_ms        double    of the worst worker, where single ones were not recorded
            lease_saturation        double    leases per sandbox: the highest, of other recorders the last
            lease_saturation_median double    leases per sandbox while it ran
            in_flight_max           int64     turns that the workers held
            in_flight_median        double    of the same
            pool                    int64     sandboxes, as seen in this rung
            file_op_p95_ms          double    exec round trip less the command's own time
            over_admission_total    int64     since the supervisor began
            spurious_refusals_total int64     since the supervisor began
            over_admission_delta    int64     in this rung
            spurious_refusals_delta int64     in this rung
            store_connections       int64     at the end
            store_connections_delta int64     grown by in this rung
            descriptors             int64     of workers and supervisor, at the end
            descriptors_delta       int64     grown by in this rung
            load1                   double    load average of the generator's machine
            """,
            LADDER,
        ),
        table(
            "rung_workers",
            "A row for each rung and worker, in the workers' order.",
            """
            c                 int64!    of the rung
            repeat            int64!    of the rung
            worker_no         int64!    from 1
            pid               int64
            lag_p99_ms        double    event loop; the highest, of other recorders the last
            lag_p99_median_ms double    the middle one of those polled
            rss_bytes         int64
            cpu_s             double
            in_flight_max     int64     most turns that it held
            in_flight_end     int64     turns it still held when the rung was over
            healthy_end       bool      as the supervisor saw it at the end
            """,
            LADDER,
        ),
        table(
            "rung_execs",
            "How many turns of a rung ran how many commands.",
            """
            c      int64!    of the rung
            repeat int64!    of the rung
            execs  text!     commands in one turn
            turns  int64!    that ran so many
            """,
            LADDER,
        ),
        table(
            "rung_notes",
            "What is said of a rung in words: what was measured, before and after it, and why a value is NULL.",
            """
            c      int64!    of the rung
            repeat int64!    of the rung
            about  text!     system, system_end or unknown
            name   text!     what of the system, or the column that is NULL
            says   text!     in words
            """,
            LADDER,
        ),
    )
}
