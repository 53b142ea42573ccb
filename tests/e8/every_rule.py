"""The name of every rule about ladders, in the order in which they are asked."""

from __future__ import annotations

from harness.e8.refusals import AFTER_FIRST, AT_THE_END, BEFORE, OF_A_RUNG

RULES = tuple(check.__name__ for check in (*BEFORE, *AFTER_FIRST, *OF_A_RUNG, *AT_THE_END))
