"""Every error this project raises on purpose.

    HarnessError                 exit 5   something of ours went wrong
    ├── UsageError               exit 3   the command, a setting or an input file is not usable
    │   ├── SettingsError                 an unknown key, or a value that does not fit its key
    │   ├── PlanError                     targets, shares, schedule or plan that no run may have
    │   ├── FaultError                    a fault= schedule that does not parse or names nothing
    │   └── BusyError                     another run is live, or unfinished
    ├── StageError               exit 4   a stage could not do its work (pins, a taken port, a full disk, a dead load)
    │   ├── PinError                      what is installed is not what the pin file names
    │   │   └── ProvenanceError           a chart or an image that is not signed, or not the one that was verified
    │   ├── PreflightError                a check before the load failed; nothing was started
    │   ├── FleetError                    proxies, targets or engines could not be started, reached or ended
    │   │   └── ClusterError              the API of the cluster refused a request
    │   │       ├── UnreachableError      it gave no usable answer for as long as was waited
    │   │       ├── CredentialsError      it does not take the credentials, also when they were read anew
    │   │       ├── ForbiddenError        the account may not do this
    │   │       ├── NotFoundError         there is no such object
    │   │       ├── ConflictError         the object is there already, or has changed meanwhile
    │   │       └── InvalidObjectError    the object breaks a rule of the API
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


class ProvenanceError(PinError):
    """A chart or an image that is not signed as asked, or not the one that was verified. Nothing was installed."""


class PreflightError(StageError):
    """A check before the load failed. Nothing was started."""


class FleetError(StageError):
    """Proxies, targets or engines could not be started, reached or ended."""


class ClusterError(FleetError):
    """The API of the cluster refused a request; ``status`` is its HTTP status, 0 when there was none."""

    status = 0


class UnreachableError(ClusterError):
    """The API gave no usable answer for as long as was waited: refused, reset, timed out, 429 or 5xx."""


class CredentialsError(ClusterError):
    """The API does not take the credentials, also after they were read anew; or there are none to read."""

    status = 401


class ForbiddenError(ClusterError):
    """The account may not do this; the message holds the API's own words, which name verb and resource."""

    status = 403


class NotFoundError(ClusterError):
    """There is no such object."""

    status = 404


class ConflictError(ClusterError):
    """The object is there already, or has changed since it was read."""

    status = 409


class InvalidObjectError(ClusterError):
    """The object breaks a rule of the API."""

    status = 422


class LoadError(StageError):
    """The load ended without a report. A second load is never started for the same run."""


class EvidenceError(HarnessError):
    """Evidence that is absent or damaged. It cannot be graded, and it never passes."""

    exit_code = EXIT_REFUSED


class ReportFormatError(EvidenceError):
    """A document that is not what its name says; the message names the file."""
