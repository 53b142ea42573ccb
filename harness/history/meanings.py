"""What every column means that a question can name: ``harness sql --list NAME``.

A table's schema says what its columns mean where the name alone does not; what is said here goes for tables, views and
the tables beside them alike, unless it is said of one of these.
"""

from __future__ import annotations

from functools import cache

from harness.store.schemas import TABLES

COLUMNS = """
actual                what was seen, in the driver's words
answers               responses that no failure counter holds, 1xx and 3xx among them
at                    UTC
authority             Host or :authority of the request
backend               address of an engine, with its port
backend_no            number of the backend within its execution
backends              N: how many backends the plan wants
bad_counters          why its counters cannot be read; NULL: they can
breaks_threshold      its own value breaks a threshold; NULL: no threshold tells the backends apart
cell                  names the row within its target
churn_log_present     the evidence has churn.log
cluster               Envoy's cluster that was to answer
code                  status of the response, 0 where none came
count                 how many samples
contradiction         where the evidence says two things of it; NULL: nowhere
counted               whether the producer counts it
counter               its name as reported
cpu_s                 CPU time of the process so far
created_at            when the run was made; NULL in runs from elsewhere
detail                the line in its own words
details               Envoy's response code details
dispatched            the driver sent it the load
dispatched_distinct   backends that were dispatched, each once
duration_ms           planned length
duration_s            planned length
elapsed_ms            how long it took
elapsed_s             seconds after the load's start
ended                 last end of an execution, by the driver's clock
ended_at              by the driver's clock
engine                name of the engine
error                 the driver's sentence; NULL: none
error_refused         why the engine refused the start, as the driver marks it
event_no              order in the log
exec_no               number of the execution in the report
execution_error       the driver's sentence about the whole execution; NULL: none
executions            how many the report has of this target
expr                  the threshold as the plan states it
failed                targets with a finding, and labels outside the plan
failures              requests in a failure class so far
flags                 Envoy's response flags
fleet                 where it ran
floor_pct             P: a survivor's 2xx count must be within P and 200 - P % of the planned one
found_in              where the source says it
gate_sha256           digest of all rules and their loader
graded_at             UTC
has_refused_key       the report has the field refused, be it null
hdr                   the distribution, as base64
held                  unanswered requests held every connection of the engine, which was on time itself
holds                 whether the threshold holds there
http_2xx              answers with a 2xx; NULL: not counted
in_error              listed with an error
in_flight             requests without an outcome at the end; NULL: not counted
ip                    address without a port
is_refused            an engine refused the start at its cap of executions
judges_it             the producer says whether an execution passed
judges_limits         the producer judges thresholds
key                   name of the setting
label                 of its execution: <scenario>/<target>
lateness_p99_ns       of the send delay what a wait for a free connection does not explain
log_not_run           targets not run, as the driver's log sums up
log_present           the evidence has the driver's log
log_skip_lines        lines of the driver's log that say SKIP
log_summary           the driver's log's last word
lost                  listed with an error, and not as a refusal at the cap
lost_backends         engines that were lost; NULL: not known
max_ns                highest latency; what it covers depends on who measured: docs/formats.md
max_send_delay_ms     limit of the engines' own lateness; NULL: the run has none
name                  of the proxy, target or process
node                  node of the engine
node_no               order in the engine list; NULL: not in it
not_run               never attempted
not_sent              requests that the engine's own queue turned away; NULL: not counted
not_sent_class        the counter of these
own_engine            the report has what only an engine of this harness counts
p50_ns                median latency, see max_ns
p99_ns                99th percentile of the latency, see max_ns
passed                the driver's own word
path                  path of the request
pid                   process id
place                 order within its target
planned               requests that were planned
planned_2xx           share × planned length: what one backend should send
planned_requests      as its engine was told
profile               profile, or mode, of the run
rate_rps              requests per second and node
reason                why it is so, in one sentence
refusal               listed with an error that is a refusal at the cap
refused               the report's word for why a start was refused
refused_by_words      refused as an older driver said it, in words alone
released_requests     what its engine's pacing let go; NULL: only an engine of this harness says so
results               backends that returned
returned              it has a result
roll_no               order in the schedule
rolls                 planned rolls
rss_bytes             resident memory
run                   the run's id
run_tag               RUN_TAG of run.env
schedule_present      the evidence has schedule.tsv
schema_version        of the table's schema
scope                 pool: the sum over all backends; per-backend or node: each of them
send_delay_p99_ns     99th percentile from when a request was due to when it was written; NULL: not measured
sent                  requests that left the engine; NULL: not known
share_rps             requests per second and node, as planned
shares                target=requests per second and node
started_at            UTC, by the clock of who started it
starts                when each execution of this target started
state                 missing, duplicate, not_run or graded
statistic             its name as reported
survivor              it returned, and nothing is held against it
survivors             how many returned with nothing held against them
target                its name in the share table
target_no             order in the share table
targets               planned targets
threshold_no          number of the threshold within its execution
times_it              the producer measures how long an execution took
title                 what the source is
took_ms               how long it took
total_http_2xx        answers with a 2xx, as the report sums them up
totals_differ         the report's sum is not the sum of its results
unit                  ns or raw
unknown               fields that the source does not say
upstream              address that answered
url                   where its requests go
value                 the value as text
verdict               PASS, FAIL, UNPROVEN, REFUSED; DAMAGED: not what was stored
worst_max_ms          of the slowest node and target
worst_p50_ms          of the slowest node and target
worst_p99_ms          of the slowest node and target
"""

OF_ONE = """
access.duration_ms          from the request's first byte to the response's last
access.node                 node of the proxy
capabilities.counter        a counter, or driver.…: something that a driver says of an execution as a whole
cells.planned               the engine list holds it
cells.http_2xx              answers with a 2xx; NULL: it returned nothing, or they are not counted
events.kind                 proxy or target
plan_rolls.kind             proxy or target
plan_rolls.at_s             seconds after the load's start
progress.count              samples in this interval
progress.http_2xx           answers with a 2xx so far
progress.max_ns             highest latency in this interval
progress.p50_ns             median latency in this interval
progress.p99_ns             99th percentile of the latency in this interval
published.dispatched        first dispatch, by the source's clock
published.failures          class and count of each failure, or none; NULL: the source does not say
published.kind              what sort of run
published.sent              requests that were sent
resources.kind              engine, proxy, target, driver, supervisor or churn
resources.node              node of an engine or proxy
resources.name              name of the process
run_folders.kind            soak, or e8 of a ladder; a run that does not say it is a soak
run_folders.state           its tables are whole, damaged, were refused when they were to be made, or there are none
runs.kind                   what sort of run
statistics.max              highest value, in unit
statistics.mean             in unit
statistics.min              lowest value, in unit
statistics.p50              median, in unit
statistics.p90              90th percentile, in unit
statistics.p99              99th percentile, in unit
statistics.p99_9            99.9th percentile, in unit
statistics.pstdev           standard deviation, in unit
target_summary.http_2xx     answers with a 2xx of all nodes that returned; NULL: none did, or they are not counted
target_summary.rate_rps     2xx per second, each node over its own time
target_summary.sent         requests that left the engines that returned; NULL: not known
execution_states.dispatched backends that were dispatched
execution_states.lost       backends that were lost
target_states.dispatched    backends that were dispatched
target_states.lost          backends that were lost
ladder_verdicts.answer      knee, not-observed or invalid
ladder_verdicts.arm         realism or capacity; NULL: not recorded
ladder_verdicts.bound       what stopped it; NULL: it may not be quoted
ladder_verdicts.floor_c     the highest healthy rung
ladder_verdicts.hi_c        the knee is not above it
ladder_verdicts.lo_c        the knee is not below it
ladder_verdicts.reason      why it is not PASS
ladder_verdicts.runner_up   of the other tiers the one that came nearest to its threshold
ladder_verdicts.saturated   a knee was observed
ladder_thresholds.name      of the threshold
ladder_thresholds.unit      of its value
ladder_thresholds.value     the number that decides
ladder_thresholds.why       the reason for it
verdicts.backends           how many the plan wants
verdicts.not_run            executions that were never attempted
verdicts.passed             targets with no finding, and with all measured that a rule needs
verdicts.reason             why it is REFUSED or DAMAGED; NULL else
"""


@cache
def said(of_one: bool = False) -> dict[str, str]:
    """Column, or table and column, → what it means."""
    lines = (OF_ONE if of_one else COLUMNS).strip().splitlines()
    return dict(map(_pair, lines))


def _pair(line: str) -> tuple[str, str]:
    name, about = line.split(maxsplit=1)
    return name, about


def meaning(table: str, column: str) -> str:
    """What a column of a table or view means; empty where nobody said it."""
    same = table.removeprefix("published_")
    schema = {each.name: each.about for each in TABLES[same].columns} if same in TABLES else {}
    return schema.get(column) or said(of_one=True).get(f"{table}.{column}") or said().get(column, "")
