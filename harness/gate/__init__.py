"""The gate: SQL that starts from the plan, and the verdict it comes to. duckdb is imported when it grades."""

from __future__ import annotations

from harness.gate.load import digest, files
from harness.gate.run import grade
from harness.gate.text import render
from harness.gate.verdict import Finding, NodeResult, TargetResult, Verdict

__all__ = ["Finding", "NodeResult", "TargetResult", "Verdict", "digest", "files", "grade", "render"]
