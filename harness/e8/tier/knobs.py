"""Environment variables as numbers and words: refused by name when they do not fit, never clamped."""

from __future__ import annotations

import re
from collections.abc import Mapping

from harness.errors import SettingsError

PLAIN_DECIMAL = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")


class Knobs:
    """Reads one process's environment. Every method raises SettingsError that names the variable."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def number(self, name: str, default: float | None, low: float, high: float) -> float:
        """A plain decimal from ``low`` to ``high``. Without a default the variable has to be there."""
        text = self._environment.get(name)
        if text is None:
            if default is None:
                raise SettingsError(f"{name} is not set; give a number from {low:g} to {high:g}")
            return default
        if not PLAIN_DECIMAL.fullmatch(text) or not low <= float(text) <= high:
            raise SettingsError(f"{name} is {text!r}; give a number from {low:g} to {high:g}")
        return float(text)

    def whole(self, name: str, default: int | None, low: int, high: int) -> int:
        """The same for a whole number."""
        value = self.number(name, default, low, high)
        if value != int(value):
            raise SettingsError(f"{name} is {self._environment[name]!r}; give a whole number from {low} to {high}")
        return int(value)

    def text(self, name: str, default: str | None = None) -> str:
        """Any text but an empty one."""
        value = self._environment.get(name, default)
        if not value:
            raise SettingsError(f"{name} is not set")
        return value

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        """One of the choices; the first is the default."""
        value = self._environment.get(name, choices[0])
        if value not in choices:
            raise SettingsError(f"{name} is {value!r}; give one of {', '.join(choices)}")
        return value

    def address(self, name: str) -> tuple[str, int]:
        """``ip:port``."""
        host, _, port = self.text(name).rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise SettingsError(f"{name} is {self.text(name)!r}; give ip:port")
        return host, int(port)
