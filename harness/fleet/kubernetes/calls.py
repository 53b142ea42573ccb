"""How one call to the cluster's API is made: a deadline, what is tried again, and what is told of it.

What a server does for a while only (refused, reset, timed out, cut, 429, 5xx) is tried again with growing waits, or as
long as its Retry-After says, until ``patience_s`` is over. A 401 makes the credentials be read anew, once a call. Every
gap of more than 5 s in what the harness could see is told to ``on_blind``.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from harness.errors import (
    ClusterError,
    ConflictError,
    CredentialsError,
    ForbiddenError,
    InvalidObjectError,
    NotFoundError,
    UnreachableError,
)
from harness.files import LineLog, utc_stamp
from harness.fleet.kubernetes import session
from harness.fleet.kubernetes.answers import Refused, Unanswered
from harness.fleet.kubernetes.config import ClusterConfig
from harness.fleet.kubernetes.session import Session

OnBlind = Callable[[float, float, str], None]
"""Called with the first and the last moment (Unix seconds) of a gap in what was seen, and its reason."""
T = TypeVar("T")

DEADLINE_S = 20.0
PATIENCE_S = 300.0
FIRST_WAIT_S, LONGEST_WAIT_S = 0.2, 5.0
BLIND_S = 5.0
FOR_A_WHILE = frozenset({408, 410, 429, 500, 502, 503, 504})
ERRORS: Mapping[int, type[ClusterError]] = {
    401: CredentialsError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    422: InvalidObjectError,
}
ADVICE: Mapping[int, str] = {
    401: "; renew the credentials of the kubeconfig",
    403: "; docs/cluster.md holds the Role that the harness needs",
}


class Calls:
    """Calls with one config's credentials, from any thread.

    ``deadline_s`` bounds each attempt and ``patience_s`` all attempts of a call, from the first that failed.
    ``sleep`` waits between two of them; it may raise to break the call off. ``connect`` reads the credentials.
    """

    def __init__(
        self,
        config: ClusterConfig,
        *,
        deadline_s: float = DEADLINE_S,
        patience_s: float = PATIENCE_S,
        on_blind: OnBlind | None = None,
        sleep: Callable[[float], object] = time.sleep,
        connect: Callable[[ClusterConfig], Session] = session.connect,
    ) -> None:
        self.config = config
        self.deadline_s = deadline_s
        self.patience_s = patience_s
        self._on_blind = on_blind
        self._sleep = sleep
        self._connect = connect
        self._lock = threading.Lock()
        self._session: Session | None = None

    def _call(
        self,
        what: str,
        ask: Callable[[Session, float], T],
        patience_s: float | None,
        deadline_s: float | None = None,
    ) -> T:
        """Ask until there is an answer, a refusal that will not pass, or no patience left."""
        patience = self.patience_s if patience_s is None else patience_s
        deadline = self.deadline_s if deadline_s is None else deadline_s
        wait_s, blind_from, failed_at = FIRST_WAIT_S, 0.0, 0.0
        renewed, why = False, ""
        while True:
            asked_at, after_s = time.time(), 0.0
            use = self._client()
            try:
                answer = ask(use, deadline)
            except Unanswered as error:
                why = error.why
            except Refused as error:
                if error.status == 401 and not renewed:
                    renewed = True
                    self._forget(use)
                    continue
                if error.status not in FOR_A_WHILE:
                    self._tell(blind_from, f"{what}: {why}")
                    raise self._error(what, error) from error
                why, after_s = error.why, error.retry_after_s
            else:
                self._tell(blind_from, f"{what}: {why}")
                return answer
            if not blind_from:
                blind_from, failed_at = asked_at, time.monotonic()
            left_s = patience - (time.monotonic() - failed_at)
            if left_s <= 0:
                self._tell(blind_from, f"{what}: {why}")
                raise UnreachableError(
                    f"{what}: no usable answer from context {self.config.context} within {patience:g} s ({why}); "
                    "look whether its API server can be reached, then go on with the same command"
                )
            self._sleep(min(max(wait_s, after_s), left_s))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _client(self) -> Session:
        with self._lock:
            if self._session is None:
                self._session = self._connect(self.config)
            return self._session

    def _forget(self, used: Session | None) -> None:
        """Let the next call read the credentials anew, unless another thread has done so already."""
        with self._lock:
            if used is None or self._session is used:
                self._session = None

    def _tell(self, blind_from: float, why: str) -> None:
        now = time.time()
        if blind_from and now - blind_from > BLIND_S and self._on_blind is not None:
            self._on_blind(blind_from, now, why)

    def _error(self, what: str, refused: Refused) -> ClusterError:
        kind = ERRORS.get(refused.status, ClusterError)
        error = kind(f"{what}: {refused.why} (context {self.config.context}){ADVICE.get(refused.status, '')}")
        error.status = refused.status
        return error


def blind_log(path: Path) -> OnBlind:
    """An ``on_blind`` that appends to ``path``, one JSON object per gap: ``from``, ``to`` (UTC), ``seconds``, ``why``.

    Raises OSError when the file cannot be opened.
    """
    log, lock = LineLog(path), threading.Lock()

    def write(start: float, end: float, why: str) -> None:
        gap = {"from": utc_stamp(start), "to": utc_stamp(end), "seconds": round(end - start, 3), "why": why}
        with lock:
            log.write(json.dumps(gap, ensure_ascii=False))

    return write
