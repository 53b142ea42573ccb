"""Settings: one registry, three sources in order, and nothing unknown gets through."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import settings
from harness.errors import SettingsError
from harness.graph.receipts import PROJECT

NOWHERE = Path("/nonexistent/harness.toml")


def test_file_then_environment_then_command_line(tmp_path: Path) -> None:
    """The later source wins, key by key."""
    toml = tmp_path / "harness.toml"
    toml.write_text("rate = 120\nnodes = 3\n[engine]\ngrace_s = 7\ntimeout_s = 5\n")
    found = settings.load(toml, {"HARNESS_NODES": "4", "HARNESS_ENGINE_GRACE_S": "8", "PATH": "/bin"}, {"nodes": "2"})
    assert (found.rate, found.nodes, found.engine.grace_s, found.engine.timeout_s) == (120, 2, 8.0, 5.0)


def test_the_shipped_file_holds_every_default() -> None:
    """harness.toml and the registry say the same, key by key, with the meaning beside each."""
    path = PROJECT / "harness.toml"
    values = settings.read_toml(path)
    assert values == {item.key: item.default for item in settings.SETTINGS if item.key != "run"}
    text = path.read_text()
    assert [item.help for item in settings.SETTINGS if item.key != "run" and item.help not in text] == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"profil": "soak"}, "command line: 'profil' is no setting; did you mean profile?"),
        ({"profile": "soaks"}, "command line: profile=soaks must be one of quick, e2e, soak"),
        ({"rate": "0"}, "command line: rate=0 must be at least 1"),
        ({"rate": "6e1"}, "command line: rate=6e1 must be a whole number"),
        ({"engine.grace_s": "nan"}, "command line: engine.grace_s=nan must be a number"),
        ({"engine.grace_s": "long"}, "command line: engine.grace_s=long must be a number"),
        ({"nodes": "\u0663"}, "command line: nodes=\u0663 must be a whole number"),
        ({"nodes": "1_0"}, "command line: nodes=1_0 must be a whole number"),
        ({"runs": ""}, "command line: runs= must not be empty"),
        ({"profile": "quick\n"}, "command line: profile must be one line without control characters"),
        ({"nodes": "27"}, "settings: nodes=27 must be at most 26 with fleet=local"),
        ({"fleet": ""}, "command line: fleet= must not be empty"),
        ({"fault": "a\nb"}, "command line: fault must be one line without control characters"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(arguments: dict[str, str], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        settings.load(NOWHERE, {}, arguments)
    assert str(refused.value) == sentence


def test_a_misspelt_variable_of_the_environment_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"HARNESS_PROFIL is no setting; did you mean HARNESS_PROFILE\?"):
        settings.load(NOWHERE, {"HARNESS_PROFIL": "soak"}, {})


def test_an_unknown_key_in_the_file_is_refused_with_the_file_named(tmp_path: Path) -> None:
    toml = tmp_path / "harness.toml"
    toml.write_text("[engine]\nmax_send_delay = 3\n")
    with pytest.raises(SettingsError, match=r"harness.toml: 'engine.max_send_delay' is no setting; did you mean"):
        settings.load(toml, {}, {})


def test_flat_and_build_are_inverse() -> None:
    """run.json holds the flat form; building from it gives the same settings again."""
    original = settings.load(NOWHERE, {}, {"nodes": "3", "engine.grace_s": "2.5", "fault": "x"})
    assert settings.build(original.flat(), "run.json") == original


@given(st.sampled_from([item.key for item in settings.SETTINGS]), st.text(max_size=20))
def test_any_text_is_a_value_or_a_settings_error(key: str, text: str) -> None:
    try:
        found = settings.load(NOWHERE, {}, {key: text})
    except SettingsError as error:
        assert "\n" not in str(error) or "\n" in text
    else:
        assert type(found.flat()[key]) is settings.BY_KEY[key].type
