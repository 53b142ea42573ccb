"""Tables of ladders: a row for each rung and repeat, one for each of its workers, and what is said of them in words.

Their columns are the fields of ``harness.e8.record``, by the same names. Beside them stand the turns and polls that
the rungs' records were made of.
"""

from __future__ import annotations

from harness.store.columns import LADDER, Table, table

LADDER_TABLES: tuple[Table, ...] = (
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
        complete          bool      no further rung was to be found; NULL: not said
        source_title      text      who published it; NULL: measured or adopted here
        source_where      text      where the source says it
        source_said       text      what the source itself concluded
        unusable          text!     facts that cannot be used, as JSON
        contradiction     text      where the evidence says two things of it; NULL: nowhere
        """,
        LADDER,
    ),
    table(
        "rungs",
        "A row for each rung and repeat of it. CPU is the rung's own; what follows from it is worked out.",
        """
        c                       int64!    clients, each with one turn in flight
        repeat                  int64!    1 is the first
        arm                     text      of the ladder: a number of one arm is never one of the other
        ended                   text      all turns, time is up, rung deadline
        cut_tries               int64     earlier tries that were cut off because the harness was killed in them
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
        worker_cpu_s            double    of all workers, by their processes at the rung's begin and end
        supervisor_cpu_s        double    of the supervisor
        sandbox_cpu_s           double    of all sandboxes
        stub_cpu_s              double    of the model stub
        relay_cpu_s             double    of the exec relay
        store_cpu_s             double    of the session and lease store
        host_cpu_s              double    not idle
        generator_cpu_s         double    of the load generator
        generator_wait_s        double    the load generator could run and had no core
        generator_lag_p99_ms    double    of the load generator's event loop
        generator_lag_max_ms    double    the longest that the load generator stood still
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
        cpu_s             double    as the worker tells it once a second: with a second before and after the rung
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
    table(
        "turns",
        "A row for each turn that a rung's clients sent, the warm-up apart; none where only records were kept.",
        """
        c        int64!    of the rung
        repeat   int64!    of the rung
        turn_no  int64!    from 1, in the order in which they ended
        client   int64!    who sent it, from 1
        start_ms double!   since the rung began
        ms       double!   from sending it to its whole answer, or to where it was given up
        code     text!     status of the answer; 000: none came
        stop     text      stop reason, as the answer gave it
        ok       bool!     answered 200 with a stop reason that is no error
        failure  text      the column of rungs that counts it; NULL: it succeeded
        cut      text      turn or rung: whose deadline ended it; NULL: neither
        error    text      in words
        session  text      as the answer named it
        """,
        LADDER,
    ),
    table(
        "polls",
        "A row for each time that the target was asked for its metrics while a rung ran, or in the second after it.",
        """
        c                 int64!    of the rung
        repeat            int64!    of the rung
        poll_no           int64!    from 1
        at_ms             double    since the first turn was sent
        tail              bool!     asked when nothing was sent any more
        problem           text      why nothing was told; NULL: it was
        healthy_workers   int64     as the supervisor saw them
        in_flight         double    turns that all workers held
        worker_cpu_s      double    of all workers since they began
        lag_p99_worst_ms  double    event loop of the worst worker
        rss_worst_bytes   double    of the largest worker
        lease_saturation  double    leases per sandbox
        pool              double    sandboxes
        restarts          double    of workers, since the supervisor began
        over_admission    double    since the supervisor began
        spurious_refusals double    since the supervisor began
        """,
        LADDER,
    ),
)
