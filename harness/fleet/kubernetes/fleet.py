"""The fleet on Kubernetes as the stages see it. Everything is read from the run's files and asked of the cluster."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from harness.children import module_environment, python_module
from harness.errors import FleetError, LoadError, UnreachableError
from harness.files import copy_whole, read_json, utc_stamp, write_atomic
from harness.fleet.base import Check, LoadState, Readiness
from harness.fleet.kubernetes import engines, load, provenance, runenv
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.calls import blind_log
from harness.fleet.kubernetes.chart import Helm
from harness.fleet.kubernetes.config import ClusterConfig, read_config
from harness.fleet.kubernetes.document import STOPPED, FleetDocument, read_fleet
from harness.fleet.kubernetes.load import Job
from harness.fleet.kubernetes.preflight import preflight
from harness.fleet.kubernetes.reader import Reader, reader_of
from harness.fleet.kubernetes.saver import Saved, Saver, say
from harness.fleet.kubernetes.statsd import resolve_statsd, with_statsd
from harness.fleet.kubernetes.supervisor import BLIND, GIVE_UP_S
from harness.fleet.kubernetes.teardown import teardown
from harness.processes import TOKEN_VARIABLE, Identity, alive, identify
from harness.runs import RunFolder

MODULE = "harness.fleet.kubernetes"
SUPERVISOR_LOG = "supervisor.log"
DRIVEN_PLAN = "driven-plan.yaml"  # where it is not plan.yaml itself: with the address of the live metrics
CHART_VERSION = re.compile(r"-(\d+\.\d+\.\d+.*)$")
ARM_LIMIT_S = 60.0
PHASE_LIMIT_S = 180.0
POLL_S = 0.2
ENDED_PHASES = ("Running", "Succeeded", "Failed")

# every name or pattern under live/ that is evidence; those that a run does not have are simply absent
EVIDENCE = (
    "run.env", "plan.yaml", DRIVEN_PLAN, "shares.tsv", "engines.tsv", "engines-end.tsv", "engine-cpu.json",
    "report.json", "results.jsonl", "sortie*.log", "times.tsv", "schedule.tsv", "churn*", "proxy-rss.tsv", "pins.json",
    "chart.json", "fleet.json", "load.json", "job.json", "sortie-pod*.json", "progress.jsonl", "histograms.jsonl",
    "resources.jsonl", "engine-*.log", "helm-*.log", "values-*.yaml", "save.log", "restart-watch.log*", "restarts.err",
    BLIND, SUPERVISOR_LOG,
)  # fmt: skip


class KubernetesFleet:
    """``harness.fleet.base.Fleet`` on a cluster, for one run.

    ``sleep`` waits between two looks; ``api`` is made when it is first needed, so that files alone can be asked freely.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        make_api: Callable[[ClusterConfig], Api] | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.folder = RunFolder(folder.root.resolve())
        self._make_api = make_api or (lambda config: Api(config, on_blind=blind_log(config.live / BLIND)))
        self._sleep = sleep
        self._known: ClusterConfig | None = None
        self._client: Api | None = None

    @property
    def config(self) -> ClusterConfig:
        """The fleet's description. Raises FleetError before the run has a plan."""
        if self._known is None:
            self._known = read_config(self.folder)
        return self._known

    @property
    def api(self) -> Api:
        """The cluster's API."""
        if self._client is None:
            self._client = self._make_api(self.config)
        return self._client

    # --- before the load

    def pins(self) -> dict[str, str]:
        """Chart, images and tools by digest and version. Raises ProvenanceError with every line that fails."""
        return provenance.pins(self.config)

    def preflight(self) -> list[Check]:
        """All checks; every one runs, none writes anything into the cluster."""
        from harness.fleet.kubernetes.churn.planned import churn_checks

        return preflight(self.config, self.api, more=[lambda: churn_checks(self.config)])

    def start(self) -> list[Readiness]:
        """Install the engines, or find them, and wait until all are ready. Raises FleetError."""
        chart = provenance.verified_chart(self.config)
        return engines.start(self.config, self.api, Helm(self.config), chart, sleep=self._sleep)

    def is_up(self) -> bool:
        """True while the engines stand, or a load was asked for, and the run is neither saved nor given up.

        True also while the API cannot be asked. What is saved is over: its release stays until its teardown.
        """
        if self.folder.saved.exists() or self.folder.closed.exists() or not self.folder.fleet_json.exists():
            return False
        if read_fleet(self.config).load_asked_at:
            return True
        try:
            return engines.are_up(self.config, self.api)
        except UnreachableError:
            return True

    # --- the load

    def start_load(self) -> None:
        """Start the driver's Job, once, or attach to it; then arm the saver, and only then wait for the driver's pod.

        Raises LoadError when the load began before and is gone, FleetError when the driver does not come to run.
        """
        config = self.config
        plan = self.folder.plan.read_text(encoding="utf-8")
        statsd, seen = resolve_statsd(config, self.api)
        say(config, seen)
        if statsd:
            plan = with_statsd(plan, statsd)
            write_atomic(config.live / DRIVEN_PLAN, plan)
        chart = provenance.verified_chart(config)
        if not self.folder.run_env.exists():
            runenv.write_run_env(self.folder.run_env, self._about(chart, statsd))
        job = load.start(config, self.api, Helm(config), chart, plan, self._reader(), sleep=self._sleep)
        self._arm()
        self._wait_for_driver(job)
        rate_rps = sum(target.rate_rps for target in config.targets)
        say(
            config,
            f"LOAD STARTED job={job.name} rate={rate_rps} rps per node x {engines.planned_nodes(config)} nodes for "
            f"{config.duration_s}s (ends ~{utc_stamp(time.time() + config.duration_s)})",
        )

    def _about(self, chart: Path, statsd: str) -> dict[str, object]:
        """What run.env says before there is a Job."""
        version = CHART_VERSION.search(chart.stem)
        config, document = self.config, read_json(self.folder.run_json)
        record = read_json(config.live / provenance.CHART_JSON)
        return {
            "RUN_TAG": config.run_tag,
            "MODE": document.get("profile", ""),
            "LABEL": config.engine,
            "CTX": config.context,
            "NS": config.namespace,
            "SYS_NS": config.system_namespace,
            "RELEASE": config.release,
            "PVC": config.pvc,
            "BACKENDS": engines.planned_nodes(config),
            "DURATION_S": config.duration_s,
            "REPORT_FILE": config.report_path,
            "STREAM_FILE": f"{Path(config.report_path).parent}/{config.stream_name}",
            "STATSD": statsd,
            "SORTIE_CHART_VERSION": version[1] if version else "",
            "SORTIE_CHART_DIGEST": record["digest"],
            "VERIFIED": record["verified"],
        }

    def _reader(self) -> Callable[[], Reader]:
        return reader_of(self.config, self.api, sleep=self._sleep)

    def _arm(self) -> None:
        """Start the supervisor unless one follows the load; return when it has said that its saver is armed."""
        if read_fleet(self.config).is_followed:
            return
        started = self._spawn()
        end_s = time.monotonic() + ARM_LIMIT_S
        while not read_fleet(self.config).is_followed:
            if not alive(started) and read_fleet(self.config).state != STOPPED:
                raise FleetError(f"the supervisor of {self.folder.run} is gone; it said last: {self._last_words()}")
            if read_fleet(self.config).state == STOPPED:
                return
            if time.monotonic() > end_s:
                raise FleetError(f"the saver was not armed within {ARM_LIMIT_S:g} s; see {SUPERVISOR_LOG}")
            self._sleep(POLL_S)

    def _spawn(self) -> Identity:
        command = python_module(MODULE, "--run-dir", str(self.folder.root))
        log = str(self.folder.live / SUPERVISOR_LOG)
        try:
            # not subprocess: nobody here waits for this process, and no object must stand for it
            pid = os.posix_spawn(
                command[0],
                command,
                module_environment() | {TOKEN_VARIABLE: self.config.token},
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setsid=True,  # a signal to the command that started it does not reach it
            )
        except OSError as error:
            raise FleetError(f"the supervisor could not be started: {error}") from error
        return identify(pid) or Identity(pid, 0)

    def _last_words(self) -> str:
        log = self.folder.live / SUPERVISOR_LOG
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return next((line for line in reversed(lines) if line.strip()), "nothing")

    def _wait_for_driver(self, job: Job) -> None:
        """Until the supervisor has seen the driver run, or end. Raises FleetError when it does not come to run."""
        end_s = time.monotonic() + PHASE_LIMIT_S
        while True:
            seen = read_fleet(self.config)
            if seen.driver_phase in ENDED_PHASES or seen.state == STOPPED:
                return
            if time.monotonic() > end_s:
                raise FleetError(
                    f"the driver of Job {job.name} is {seen.driver_phase or 'not there'} after {PHASE_LIMIT_S:g} s "
                    f"({seen.driver_why or 'no reason given'}); the saver waits for it, and the same command goes on; "
                    f"./doit teardown:{self.folder.run} force=1 gives it up"
                )
            self._sleep(POLL_S)

    def load_state(self) -> LoadState:
        """How the load stands. A load that runs and that nobody follows any more is followed again."""
        seen = read_fleet(self.config)
        if seen.is_followed and seen.state != STOPPED:
            return LoadState("running", _detail(seen))
        if seen.state == STOPPED:
            return self._after(seen)
        if not (self.folder.intent.exists() and (seen.load_asked_at or load.noted(self.config))):
            return LoadState("not_started")
        job = load.attach(self.config, self.api)
        if job is None:
            return LoadState("not_started", "it was asked for, and no Job of it was made")
        self._arm()
        return LoadState("running", _detail(read_fleet(self.config)))

    def _after(self, seen: FleetDocument) -> LoadState:
        """After the saver's last word: without a report it is asked once more, before anything is given up.

        Raises FleetError when the API or the volume cannot be read now: then nobody knows, and nothing is lost yet.
        """
        if self.folder.report_json.exists():
            return LoadState("ended", seen.reason)
        saved = self.save()
        if saved.has_report:
            return LoadState("ended")
        if saved.job_state == load.ACTIVE:
            return LoadState(
                "gone",
                f"its Job is still active {GIVE_UP_S:g} s after its planned end; ./doit teardown:{self.folder.run} "
                "force=1 ends it",
            )
        if saved.unread:
            raise FleetError(f"{saved.line}; the same command tries again")
        return LoadState("gone", saved.line)

    # --- after the load

    def save(self) -> Saved:
        """One pass of the saver, now, from any process. Raises FleetError, and LoadError when there is no load."""
        job = load.attach(self.config, self.api)
        if job is None:
            raise LoadError(f"run {self.folder.run} has no Job in {self.config.namespace}: there is no load to save")
        return Saver(self.config, self.api, job, self._reader(), sleep=self._sleep).save()

    def collect(self, target: Path) -> list[str]:
        """Copy every evidence file into ``target``, each whole or not at all. Returns the names, sorted.

        What the last pass of the saver could not bring is asked for once more. Raises OSError (a full disk).
        """
        if load.noted(self.config) is not None and not self.folder.report_json.exists():
            try:
                self.save()
            except (FleetError, LoadError) as error:
                say(self.config, f"could not save: {error}")
        target.mkdir(parents=True, exist_ok=True)
        sources = {path.name: path for pattern in EVIDENCE for path in self.folder.live.glob(pattern) if path.is_file()}
        sources["run.json"] = self.folder.run_json
        for name, source in sources.items():
            copy_whole(source, target / name)
        return sorted(sources)

    def stop(self, *, cancel_load: bool) -> None:
        """Without ``cancel_load`` nothing: engines stay until the teardown. With it the teardown, which may refuse."""
        if cancel_load:
            self.teardown(force=False, purge=False)

    def teardown(self, *, force: bool, purge: bool) -> list[str]:
        """Take the release away: a line for each thing done. Raises LoadError when that would lose something."""
        return teardown(self.config, self.api, Helm(self.config), force=force, purge=purge)

    def sweep(self) -> list[str]:
        """Nothing: the supervisor and what runs beside it end by themselves, and a load is never swept away."""
        return []


def _detail(seen: FleetDocument) -> str:
    driver = f"driver {seen.driver_phase}" if seen.driver_phase else "the driver has no pod yet"
    why = f" ({seen.driver_why})" if seen.driver_why and seen.driver_phase not in ENDED_PHASES else ""
    return f"{driver}{why}"
