"""Every error this project raises on purpose.

    HarnessError                 exit 5   something of ours went wrong
    ├── UsageError               exit 3   the command, a setting or an input file is not usable
    │   ├── SettingsError                 an unknown key, or a value that does not fit its key
    │   ├── PlanError                     targets, shares, schedule or plan that no run may have
    │   ├── FaultError                    a fault= schedule that does not parse or names nothing
    │   └── BusyError                     another run is live, or unfinished
    ├── StageError               exit 4   a stage could not do its work (pins, a taken port, a full disk, a dead load)
    │   ├── PinError                      what is installed is not what the pin file names
    │   ├── PreflightError                a check before the load failed; nothing was started
    │   ├── FleetError                    proxies, targets or engines could not be started, reached or ended
    │   └── LoadError                     the load ended without a report, and is never started twice
    └── EvidenceError            exit 2   evidence that is absent or damaged: it cannot be graded
        └── ReportFormatError             a document that is not what its name says

Exit codes of every command: 0 PASS, 1 FAIL, 2 REFUSED or UNPROVEN, 3 and more as above, 128 + n after signal n.
A message is one sentence for a person and says what to do next.
"""

from __future__ import annotations

EXIT_PASS = 0
EXIT_FAIL = 1
EXIT_REFUSED = 2
EXIT_USAGE = 3
EXIT_STAGE = 4
EXIT_INTERNAL = 5


class HarnessError(Exception):
    """Base of the tree. Carries where it happened, as far as that is known."""

    exit_code = EXIT_INTERNAL

    def __init__(
        self,
        message: str,
        *,
        run: str | None = None,
        stage: str | None = None,
        target: str | None = None,
        node: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.run = run
        self.stage = stage
        self.target = target
        self.node = node

    def __str__(self) -> str:
        return self.message


class UsageError(HarnessError):
    """The command line, a setting or an input file is not usable. Nothing was started."""

    exit_code = EXIT_USAGE


class SettingsError(UsageError):
    """An unknown key, or a value that does not fit its key."""


class PlanError(UsageError):
    """Targets, shares, a schedule or a plan that no run may have."""


class FaultError(UsageError):
    """A ``fault=`` schedule that does not parse, or that names a node or target that is not there."""


class BusyError(UsageError):
    """Another run is live, or one is unfinished; the message holds the command that goes on."""


class StageError(HarnessError):
    """A stage could not do its work."""

    exit_code = EXIT_STAGE


class PinError(StageError):
    """What is installed is not what the pin file names."""


class PreflightError(StageError):
    """A check before the load failed. Nothing was started."""


class FleetError(StageError):
    """Proxies, targets or engines could not be started, reached or ended."""


class LoadError(StageError):
    """The load ended without a report. A second load is never started for the same run."""


class EvidenceError(HarnessError):
    """Evidence that is absent or damaged. It cannot be graded, and it never passes."""

    exit_code = EXIT_REFUSED


class ReportFormatError(EvidenceError):
    """A document that is not what its name says; the message names the file."""
