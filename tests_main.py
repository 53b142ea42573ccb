"""Runs pytest for Bazel, whose py_test calls a main: one that ran nothing would pass in silence."""

import sys
from pathlib import Path

import pytest

if __name__ == "__main__":
    root = Path(__file__).parent
    # pytest's own code is the answer; 5 (nothing was collected) fails the target like any other.
    sys.exit(
        pytest.main(
            ["--rootdir", str(root), "-c", str(root / "pyproject.toml"), *(sys.argv[1:] or [str(root / "tests")])]
        )
    )
