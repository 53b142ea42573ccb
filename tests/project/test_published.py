"""runs/published: every file is one that the questions take, and names its source."""

from __future__ import annotations

import re
from pathlib import Path

from harness.history.published import published_files, read_published


def test_every_published_run_is_as_it_should_be_and_listed(root: Path) -> None:
    found = {path.name: read_published(path) for path in published_files(root / "runs")}
    assert found
    listed = re.findall(r"^\| \[`(\S+?)`\]\((\S+?)\) \|", (root / "runs/published/README.md").read_text(), re.MULTILINE)
    assert listed == [(name, name) for name in sorted(found)]
