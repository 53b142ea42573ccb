"""Settings: every value reaches the process that it is meant for, and none that does not fit goes anywhere."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.e8.tier.__main__ import _parser
from harness.e8.tier.knobs import Knobs
from harness.e8.tier.settings import RANGES, Profile, TierSettings, available_cores
from harness.errors import SettingsError

profiles = st.builds(
    Profile,
    ttft_ms=st.floats(0, 60_000).map(lambda value: round(value, 3)),
    token_delay_ms=st.floats(0, 10_000).map(lambda value: round(value, 3)),
    output_tokens=st.integers(1, 100_000),
    tool_call_rate=st.floats(0, 1).map(lambda value: round(value, 6)),
)


@given(profiles)
def test_a_profile_survives_its_text_and_the_stubs_environment(profile: Profile) -> None:
    assert Profile.from_text(profile.to_text()) == profile
    assert Profile.from_knobs(Knobs(profile.to_environment())) == profile


def test_what_the_profile_tells_is_what_it_is() -> None:
    told = Profile(300.0, 12.0, 64, 0.5).to_json()
    assert told == {"ttftMs": 300, "tokenDelayMs": 12, "outputTokens": 64, "toolCallRate": 0.5}


def test_the_flags_start_the_same_tier() -> None:
    given_ = TierSettings(
        workers=3, cap=5, profile=Profile(10.0, 1.5, 7, 0.07), tool_command="echo 'a b'; true", lifetime_s=12.5
    )
    options = vars(_parser().parse_args(["--state=x", *given_.to_flags()]))
    del options["state"], options["root"]
    assert TierSettings(**options | {"profile": Profile.from_text(options["profile"])}) == given_


@pytest.mark.parametrize("name", RANGES)
def test_a_setting_outside_its_range_is_refused_by_name(name: str) -> None:
    low, high = RANGES[name]
    for value in (low - 1, high + 1):
        with pytest.raises(SettingsError, match=name):
            dataclasses.replace(TierSettings(), **{name: value})


@pytest.mark.parametrize("text", ["", "300/12/64", "300/12/64/0.5/1", "300/12/64/7", "a/12/64/0.5", "300/12/1.5/0.5"])
def test_a_profile_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SettingsError):
        Profile.from_text(text)


@pytest.mark.parametrize("text", ["", " 1", "1e3", "-1", "nan", "inf", "1_0", "0x1", "61000", "１"])
def test_a_variable_that_does_not_fit_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match="SH_STUB_TTFT_MS"):
        Profile.from_knobs(Knobs({"SH_STUB_TTFT_MS": text}))


@given(st.text())
def test_any_text_is_a_number_within_the_range_or_refused(text: str) -> None:
    try:
        found = Knobs({"X": text}).number("X", None, 1, 50)
    except SettingsError:
        return
    assert math.isfinite(found) and 1 <= found <= 50


def test_without_a_default_a_variable_has_to_be_there() -> None:
    with pytest.raises(SettingsError, match="SH_TURNS_PER_WORKER is not set"):
        Knobs({}).whole("SH_TURNS_PER_WORKER", None, 1, 10)
    for read in (Knobs({"A": "1.2.3.4"}).address, Knobs({"A": ":1"}).address, Knobs({"A": "h:99999"}).address):
        with pytest.raises(SettingsError, match="ip:port"):
            read("A")


def test_there_is_always_a_core() -> None:
    assert available_cores() >= 1
