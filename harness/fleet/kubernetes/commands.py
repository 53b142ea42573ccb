"""Commands of other tools, by plumbum and never by a shell: bounded in time, without the caller's hidden settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.errors import FleetError
from harness.fleet.kubernetes.session import squeezed

LIMIT_S = 120.0


@dataclass(frozen=True)
class Done:
    """What a command came to: its exit code, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def said(self) -> str:
        """Its complaint on one line, at most 300 characters: the last words count most."""
        text = " ".join((self.err.strip() or self.out.strip()).split())
        return text if len(text) <= 300 else f"…{text[-300:]}"


def is_there(program: str) -> bool:
    """Whether the program can be started, by name or path."""
    from plumbum import CommandNotFound, local

    try:
        local[program]
    except CommandNotFound:
        return False
    return True


def run(
    program: str,
    arguments: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    limit_s: float = LIMIT_S,
) -> Done:
    """Run the program and wait for its end. Raises FleetError when it cannot be started or does not end in time."""
    from plumbum import CommandNotFound, ProcessTimedOut, local

    try:
        command = local[program]
        code, out, err = command[list(arguments)].run(retcode=None, timeout=limit_s, env=dict(variables or {}))
    except CommandNotFound as error:
        raise FleetError(f"{program} is not installed, or not in PATH") from error
    except ProcessTimedOut as error:
        raise FleetError(f"{program} {' '.join(arguments[:2])} did not end within {limit_s:g} s") from error
    except OSError as error:
        raise FleetError(f"{program} cannot be started: {squeezed(str(error))}") from error
    return Done(int(code), out, err)
