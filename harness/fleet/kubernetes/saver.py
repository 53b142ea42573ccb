"""The saver: brings what a load left in the cluster into ``live/``, again and again if need be, and never half of it.

Order: the Job, the driver's pod and log, the engines' logs and restarts; then, once the Job is over, from the volume
the results stream first, then the report, then what else the driver wrote. A download that is not whole is dropped, and
an earlier good copy stays. SAVED is written by the stage ``save`` alone, when all of this has become evidence.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import FleetError, NotFoundError
from harness.files import LineLog, utc_stamp, write_atomic, write_json
from harness.fleet.kubernetes import cpu, engines, load
from harness.fleet.kubernetes.answers import Document, metadata, uid
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.config import HARNESS, REPORT_FOLDER, SORTIE, ClusterConfig
from harness.fleet.kubernetes.load import Job
from harness.fleet.kubernetes.reader import Reader
from harness.fleet.kubernetes.runenv import read_run_env
from harness.processes import own_identity
from harness.progress import read_object
from harness.sortie.times import times_tsv

SAVE_LOG = "save.log"
LOG_LIMIT_S, LOG_PATIENCE_S = 60.0, 15.0  # of a node that is frozen nothing comes, however long it is asked
POD_END_LIMIT_S = 120.0  # a cancelled driver waits 30 s for its engines, and has 60 s to end
POD_END_POLL_S = 2.0
FINISHED = ("Succeeded", "Failed")
DRIVER_CONTAINERS = {HARNESS: "driver", SORTIE: "sortie"}
OWN_FILES = (".progress.jsonl", ".histograms.jsonl")
"""What our own driver writes beside its report, by the ending that takes the place of ``.json``."""


@dataclass(frozen=True)
class Saved:
    """What a pass of the saver came to: the Job's state, whether a report is in ``live/``, and its last line.

    ``unread``: a file of the volume could not be read, so that another pass may bring more.
    """

    job_state: str
    has_report: bool
    line: str
    unread: bool = False


class Saver:
    """Saves one load. May be made and used any number of times, by any process, also after the release is gone.

    ``reader`` is asked for when the first file is read. Methods raise FleetError only for what keeps the whole pass
    from being made (no API); what cannot be had is said in save.log, and the rest is saved.
    """

    def __init__(
        self,
        config: ClusterConfig,
        api: Api,
        job: Job,
        reader: Callable[[], Reader],
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._config = config
        self._api = api
        self._job = job
        self._make_reader = reader
        self._sleep = sleep
        self._live = config.live
        self._unread = False

    # --- the whole of it

    def save(self) -> Saved:
        """One pass. Its last line is ``SORTIE_SAVED …``, ``SORTIE_SAVE_INCOMPLETE …`` or ``SORTIE_SAVE_FAILED …``."""
        self._unread = False
        job = load.look(self._config, self._api, self._job)
        state = load.state_of(job)
        if job is not None:
            write_json(self._live / "job.json", job)
        if state in load.OVER:
            self._wait_for_pods()
        self.snapshot()
        pods = engines.engine_pods(self._config, self._api)
        self._engine_logs(pods)
        if pods:  # of a release that is gone nothing is known any more, and what was known stays
            write_atomic(self._live / "engines-end.tsv", "".join(f"{row}\n" for row in engines.end_rows(pods)))
        if state not in load.OVER:
            return self._last(
                state, f"SORTIE_SAVE_INCOMPLETE job={state}: the load is not over, nothing of it is final"
            )
        said_stream = self._stream()
        said_report = self._report()
        if self._config.engine == HARNESS:
            self._own_files()
        self._claim()
        self._times()
        return self._last(state, self._final_line(state, said_stream, said_report))

    def snapshot(self) -> None:
        """The driver's pod and log as they are now. Of a deleted pod what was seen before stays."""
        pods = load.driver_pods(self._config, self._api, self._job)
        first = uid(read_object(self._live / "sortie-pod.json"))
        if not pods and not first:
            self._say("the driver has no pod: no sortie.log is written")
        for number, pod in enumerate(pods):
            name = str(metadata(pod).get("name"))
            is_first = uid(pod) == first if first else number == 0
            write_json(self._live / ("sortie-pod.json" if is_first else f"sortie-pod-{name}.json"), pod)
            self._log(name, "sortie.log" if is_first else f"sortie-{name}.log", DRIVER_CONTAINERS[self._config.engine])
            first = first or uid(pod)

    # --- pods

    def _wait_for_pods(self) -> None:
        """A Job can be over while its pod still writes: a deleted one has until its grace is over."""
        end_s = time.monotonic() + POD_END_LIMIT_S
        while any(load.phase_of(pod) not in FINISHED for pod in load.driver_pods(self._config, self._api, self._job)):
            if time.monotonic() > end_s:
                self._say(f"the driver's pod has not ended {POD_END_LIMIT_S:g} s after its Job")
                return
            self._sleep(POD_END_POLL_S)

    def _log(self, pod: str, name: str, container: str | None, *, previous: bool = False) -> bytes | None:
        """Keep a container's log under ``name``, unless what is kept already holds more of it."""
        path = self._live / name
        try:
            log = self._api.pod_log(
                pod,
                self._config.namespace,
                container=container,
                previous=previous,
                deadline_s=LOG_LIMIT_S,
                patience_s=LOG_PATIENCE_S,
            )
        except NotFoundError:
            self._say(f"{name}: the pod {pod} is gone")
            return None
        except FleetError as error:
            self._say(f"{name}: {error}")
            return None
        kept = path.stat().st_size if path.exists() else 0
        if len(log) >= kept:
            write_atomic(path, log)
        else:
            self._say(f"{name}: the node has {len(log)} bytes of it now, {kept} are kept")
        return log

    def _engine_logs(self, pods: list[Document]) -> None:
        rows, lines = [], []
        from_s, to_s = self._window()
        for gone in sorted(self._noted_engines() - {str(metadata(pod).get("name")) for pod in pods}):
            self._say(f"engine-{gone}.log: the pod is gone, and its log with it")
        for pod in pods:
            name = str(metadata(pod).get("name"))
            if self._restarts(pod):
                self._log(name, f"engine-{name}-previous.log", "engine", previous=True)
            used = cpu.usages(self._log(name, f"engine-{name}.log", "engine") or b"")
            lines += cpu.resource_lines(pod, used)
            rows.append(cpu.against_request(pod, used, from_s=from_s, to_s=to_s))
        if not rows:
            return
        write_json(self._live / "engine-cpu.json", {"schema": 1, "engines": rows})
        write_atomic(self._live / "resources.jsonl", "".join(f"{line}\n" for line in lines))
        for row in rows:
            self._say(cpu.said(row))

    def _noted_engines(self) -> set[str]:
        """Pods of engines.tsv."""
        path = self._config.folder.engines
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return {line.split("\t")[2] for line in lines}

    def _window(self) -> tuple[float, float]:
        """The load's own time, as far as it is known."""
        claim, env = read_object(self._config.folder.load_json), read_run_env(self._config.folder.run_env)
        start = claim.get("start_unix_ns")
        from_s = start / 1e9 if isinstance(start, int) else float(env.get("T_LOAD") or self._job.t_job_s)
        return from_s, from_s + self._config.duration_s

    @staticmethod
    def _restarts(pod: Document) -> int:
        containers = (pod.get("status") or {}).get("containerStatuses") or []
        return sum(int(container.get("restartCount") or 0) for container in containers)

    # --- the volume

    def _read(self, path: str) -> bytes | None:
        try:
            content = self._make_reader().read(path)
        except FleetError as error:
            self._unread = True
            self._say(f"{Path(path).name}: {error}")
            return None
        if content is None:
            self._say(f"{Path(path).name}: there is no such file on the volume")
        return content

    def _stream(self) -> str:
        content = self._read(f"{REPORT_FOLDER}/{self._config.stream_name}")
        path = self._config.folder.stream
        if content is not None:
            write_atomic(path, content)
        if not path.exists():
            return ""
        executions, torn = stream_counts(path.read_bytes())
        tail = f", {torn} lines that do not parse" if torn else ""
        self._say(f"saved {path.name} (the results stream): {executions} execution(s){tail}")
        return f"{executions} execution(s){tail}"

    def _report(self) -> str:
        """Why there is no report; empty when there is one, of this pass or of an earlier one."""
        content = self._read(self._config.report_path)
        why = "it is not on the volume, or could not be read"
        if content is not None:
            why = "" if is_report(content) else "what lies there holds no executions"
            if not why:
                write_atomic(self._config.folder.report_json, content)
        return "" if self._config.folder.report_json.exists() else why

    def _own_files(self) -> None:
        for ending in OWN_FILES:
            content = self._read(str(Path(self._config.report_path).with_suffix(ending)))
            if content is not None:
                write_atomic(self._live / ending.removeprefix("."), content)

    def _claim(self) -> None:
        """load.json: the driver's own claim where it wrote one, else what was seen from outside."""
        claim: dict[str, Any] = {}
        if self._config.engine == HARNESS:
            raw = self._read(str(Path(self._config.report_path).with_suffix(".load.json")))
            claim = _object(raw) if raw is not None else {}
        kept = read_object(self._config.folder.load_json)
        if not kept or (claim and not kept.get("claimed_by_driver")):  # a receipt may hold what is kept by its digest
            write_claim(self._config, self._job, claim)

    def _times(self) -> None:
        executions = read_object(self._config.folder.report_json).get("executions")
        if not isinstance(executions, list) and self._config.folder.stream.exists():
            executions = [_object(line) for line in self._config.folder.stream.read_bytes().splitlines()]
        found = [entry for entry in executions or [] if isinstance(entry, dict) and entry]
        if found:
            write_atomic(self._live / "times.tsv", times_tsv(found))

    # --- words

    def _final_line(self, state: str, stream: str, no_report: str) -> str:
        if no_report and stream:
            return (
                f"SORTIE_SAVE_FAILED no report ({no_report}), but the results stream IS saved: {stream}; grade it with "
                f"harness gate {self._config.run_tag} --stream"
            )
        if no_report:
            return f"SORTIE_SAVE_FAILED no report: {no_report}; no teardown with purge=1 now: it deletes the volume"
        executions = read_object(self._config.folder.report_json)["executions"] or []
        not_run = sum(bool(entry.get("not_run")) for entry in executions)
        starts = [str(entry["started_at"]) for entry in executions if entry.get("started_at")]
        ends = [str(entry["ended_at"]) for entry in executions if entry.get("ended_at")]
        passed = str(read_object(self._config.folder.report_json).get("pass", "absent")).lower()
        window = f"{min(starts, default='-')}..{max(ends, default='-')}"
        return (
            f"SORTIE_SAVED dir={self._live} job={state} executions={len(executions)} pass={passed} not_run={not_run} "
            f"window={window} stream_executions={stream.partition(' ')[0] or '-'}"
        )

    def _last(self, state: str, line: str) -> Saved:
        self._say(line)
        return Saved(state, self._config.folder.report_json.exists(), line, self._unread)

    def _say(self, text: str) -> None:
        say(self._config, text)


def say(config: ClusterConfig, text: str) -> None:
    """One line of save.log. Raises OSError on a full disk."""
    log = LineLog(config.live / SAVE_LOG)
    try:
        log.write(f"{utc_stamp()} {' '.join(text.split())}")
    finally:
        log.close()


def write_claim(config: ClusterConfig, job: Job, claim: dict[str, Any]) -> None:
    """load.json: the load's start and end, its Job, and the process of this machine that follows it.

    ``claim`` is the driver's own, empty where there is none: then the start is when its pod was first seen.
    """
    env = read_run_env(config.folder.run_env)
    start_unix_ns = claim.get("start_unix_ns")
    if not isinstance(start_unix_ns, int):
        start_unix_ns = int(env.get("T_LOAD") or job.t_job_s) * 1_000_000_000
    document = {
        "schema": 1,
        **own_identity().to_json(),
        "claimed_at": str(claim.get("claimed_at") or utc_stamp(job.t_job_s)),
        "start_unix_ns": start_unix_ns,
        "duration_s": config.duration_s,
        "ends_unix_s": start_unix_ns / 1e9 + config.duration_s,
        "job": job.name,
        "job_uid": job.uid,
        "claimed_by_driver": bool(claim),
    }
    write_json(config.folder.load_json, document)


def stream_counts(content: bytes) -> tuple[int, int]:
    """Lines of a results stream that are executions, and lines that are not."""
    lines = [line for line in content.splitlines() if line.strip()]
    executions = sum(isinstance(_object(line).get("label"), str) for line in lines)
    return executions, len(lines) - executions


def is_report(content: bytes) -> bool:
    """Whether it parses as a report: an object whose ``executions`` is an array."""
    return isinstance(_object(content).get("executions"), list)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
