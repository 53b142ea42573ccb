"""Processes of the tier: modules of this project that the kernel ends with their parent."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness import children
from harness.children import module_environment, python_module, watch
from harness.e8.tier.process import PARENT_VARIABLE


class Child(children.Child):
    """One process of the tier."""

    def to_json(self) -> dict[str, Any]:
        """The form that stands in the state file."""
        about = {"name": self.name, "kind": self.kind, "exit_status": self.exit_status}
        return about | self.identity.to_json()


def spawn(
    module: str,
    *,
    name: str,
    kind: str,
    environment: Mapping[str, str],
    on_exit: Callable[[Child], None],
    log: Path | None = None,
    descriptors: Sequence[int] = (),
) -> Child:
    """Start a module of this project as a child, with this process's environment and the given variables.

    With a ``log`` its stderr is appended there and its stdout is a pipe (``child.popen.stdout``); without, both are
    this process's stderr. ``on_exit`` is called once in the event loop. Raises OSError.
    """
    file: IO[bytes] | None = log.open("ab") if log else None
    try:
        popen = subprocess.Popen(
            python_module(module),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if file else sys.stderr,
            stderr=file or sys.stderr,
            env={**module_environment(), PARENT_VARIABLE: str(os.getpid()), **environment},
            pass_fds=descriptors,
        )
    finally:
        if file:
            file.close()
    child = Child(name=name, kind=kind, popen=popen)
    watch(child, on_exit)
    return child
