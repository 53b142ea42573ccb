"""One offline HTML page per run: verdict first, then what it rests on. No script, nothing loaded from elsewhere."""

from __future__ import annotations

from harness.report.page import render, write

__all__ = ["render", "write"]
