"""What runs beside a load, each a process of its own so that no fault of it takes the saver along: watchdog and churn.

Both are told the run's folder, read T_LOAD of its run.env, write their own log in ``live/``, and end within seconds of
a SIGTERM with everything put back that they changed. They outlive a supervisor that is killed; the next one finds them
by pid and start time.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from harness.children import module_environment, python_module
from harness.fleet.kubernetes.config import ClusterConfig
from harness.fleet.kubernetes.document import change_fleet
from harness.processes import TOKEN_VARIABLE, Identity, alive, end, identify
from harness.progress import read_object

WATCHDOG, CHURN = "restarts", "churn"
MODULES = {WATCHDOG: "harness.fleet.kubernetes.restarts", CHURN: "harness.fleet.kubernetes.churn"}
CHURN_SCHEDULE = "churn.toml"
LAST_WORDS_S = 180.0  # after a whole load: the watchdog's last interval, a roll that is being done
STOP_GRACE_S = 10.0
POLL_S = 0.2


class Beside:
    """The processes beside one load. ``command`` makes the words that start one; tests give others."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._children: list[subprocess.Popen[bytes]] = []

    def command(self, name: str) -> list[str]:
        """The words that start a process."""
        return python_module(MODULES[name], "--run-dir", str(self._config.folder.root))

    def start_watchdog(self) -> None:
        """Start to count restarts, unless somebody does."""
        if not self._is_there(WATCHDOG):
            self._start(WATCHDOG)

    def start_churn(self) -> None:
        """Start the churn, when the run has one, and once: what an earlier one has rolled is not rolled again."""
        if (self._config.live / CHURN_SCHEDULE).exists() and self._noted(CHURN) is None:
            self._start(CHURN)

    def end(self, *, early: bool) -> None:
        """Let each come to its end, unless it is ``early``; then ask it to, then kill it. A second call: nothing."""
        end_s = time.monotonic() + (0 if early else LAST_WORDS_S)
        while self._running() and time.monotonic() < end_s:
            time.sleep(POLL_S)
        end(self._running(), grace_s=STOP_GRACE_S)
        self._reap()

    def _start(self, name: str) -> None:
        with (self._config.live / f"{name}.err").open("ab") as errors:
            child = subprocess.Popen(
                self.command(name),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env=module_environment() | {TOKEN_VARIABLE: self._config.token},
                cwd=Path("/"),
                start_new_session=True,  # a signal to the supervisor is passed on in order, by ``end``
            )
        self._children.append(child)
        identity = identify(child.pid) or Identity(child.pid, 0)
        change_fleet(self._config, beside={**self._document(), name: identity.to_json()})

    def _document(self) -> dict[str, dict[str, int]]:
        noted = read_object(self._config.folder.fleet_json).get("beside")
        return noted if isinstance(noted, dict) else {}

    def _noted(self, name: str) -> Identity | None:
        try:
            return Identity.from_json(self._document()[name])
        except (KeyError, TypeError, ValueError):
            return None

    def _is_there(self, name: str) -> bool:
        noted = self._noted(name)
        return noted is not None and alive(noted)

    def _running(self) -> list[Identity]:
        self._reap()
        noted = (self._noted(name) for name in MODULES)
        return [process for process in noted if process is not None and alive(process)]

    def _reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]
