"""What decides of a ladder's verdict is in its digest, so that a change there grades it again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from harness.e8 import grade

ROOT = Path(__file__).parents[2]
NOT_IN_IT = {
    "harness/errors.py": "kinds of errors; their sentences stand where they are raised",
    "harness/files.py": "reads and writes files",
    "harness/runs.py": "names of files and folders",
    "harness/sqlfiles.py": "where the SQL is; the files themselves are in",
    "harness/gate/saved.py": "holds saved files against their own sums",
    "harness/gate/store.py": "keeps a verdict that was made",
    "harness/gate/verdict.py": "the words PASS, FAIL, REFUSED, UNPROVEN, and soaks' verdicts",
    "harness/store/made.py": "holds tables against their own sums",
    "harness/store/parquet.py": "writes tables; their rows are held against the evidence at each grading",
    "harness/store/schemas.py": "soaks' schemas beside ladder_schemas.py, which is in",
    "harness/e8/ladder.py": "the word auto; which rungs were measured is evidence",
    "harness/e8/tier/settings.py": "what the embedded tier may be; readings.py takes names of its environment alone",
}
"""Imported by what decides, and no part of the decision; each with the reason."""


def imported(path: Path) -> Iterator[str]:
    """The files of this project that a module imports, anywhere in it, but for types alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "harness":
            package = str(node.module).replace(".", "/")
            for each in node.names:
                named = f"{package}/{each.name}.py"
                file = named if (ROOT / named).exists() else f"{package}.py"
                yield file if (ROOT / file).exists() else f"{package}/__init__.py"


def test_what_a_grading_imports_is_in_the_digest_or_has_a_reason_not_to_be() -> None:
    listed = {str(path.relative_to(ROOT)) for path in grade.files()}
    found = {file for path in grade.files() if path.suffix == ".py" for file in imported(path)}
    assert {"harness/e8/grade.py", "harness/store/ladder_evidence.py"} <= listed
    assert sorted(found - listed) == sorted(NOT_IN_IT)
