"""Run ids become folders, so only safe names pass."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from harness.errors import UsageError
from harness.runs import check_run_id, new_run_id


@pytest.mark.parametrize(
    "text", ["", ".", "..", ".hidden", "a/b", "../x", "a b", "a\n", "-n", "published", "Published", "x" * 64, "ä"]
)
def test_what_could_leave_the_folder_is_no_run_id(text: str) -> None:
    with pytest.raises(UsageError):
        check_run_id(text)


def test_a_run_is_named_after_its_profile_and_moment() -> None:
    name = new_run_id("quick", datetime(2026, 11, 1, 6, 8, 9, tzinfo=UTC))
    assert name == check_run_id(name) == "quick-20261101T060809Z"
