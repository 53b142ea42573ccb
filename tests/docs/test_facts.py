"""What the documentation states twice is the same both times: settings, profiles, exit codes, links."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from harness import errors
from harness.e8 import faults as ladder_faults
from harness.fleet.local import faults
from harness.plan import schedule
from harness.plan.build import STAND_IN_DOMAINS
from harness.plan.sortie_yaml import ZERO_FAILURES
from harness.settings import BY_KEY, SETTINGS, Setting, is_for, read_toml
from harness.sortie import names

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(path for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "runs/README.md"])
GUIDE = ROOT / "docs/soak.md"
LADDER_GUIDE = ROOT / "docs/e8.md"
NOT_IN_TOML = {"run"}  # names one run, so it belongs on the command line


def marked(name: str, guide: Path = GUIDE) -> str:
    """The text between ``<!-- name -->`` and ``<!-- /name -->`` of a guide."""
    found = re.search(f"<!-- {name} -->\n(.*?)<!-- /{name} -->", guide.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"{guide.name} has no block {name}"
    return found[1]


def row(setting: Setting) -> str:
    """A setting as a row of the guide's table."""
    default = f"`{setting.default}`" if setting.default != "" else ""
    return f"| `{setting.key}` | {default} | {setting.help.replace('|', chr(92) + '|')} |\n"


@pytest.mark.parametrize(("guide", "ladder"), [(GUIDE, False), (LADDER_GUIDE, True)])
def test_the_guides_list_every_setting_as_it_is(guide: Path, ladder: bool) -> None:
    rows = "".join(row(setting) for setting in SETTINGS if is_for(setting.key, ladder=ladder))
    expected = "| key | default | meaning |\n| --- | --- | --- |\n" + rows
    assert marked("settings", guide) == expected, f"the block should read:\n{expected}"


def test_harness_toml_holds_every_setting_with_its_default_and_meaning() -> None:
    path = ROOT / "harness.toml"
    assert read_toml(path) == {key: setting.default for key, setting in BY_KEY.items() if key not in NOT_IN_TOML}
    comments = re.findall(r"^\w+ = .*?#\s(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert comments == [setting.help for setting in SETTINGS if setting.key not in NOT_IN_TOML]


def test_the_guide_lists_every_profile_as_it_is() -> None:
    nodes, rate = BY_KEY["nodes"].default, BY_KEY["rate"].default
    assert isinstance(nodes, int)
    assert isinstance(rate, int)
    rows = (
        "| profile | load | requests planned | proxy hot restarts | target rolls |\n| --- | --- | --- | --- | --- |\n"
    )
    for profile in BY_KEY["profile"].choices:
        planned = schedule.read_schedule(schedule.profile_file(profile))
        assert planned.duration_s is not None
        kinds = [roll.kind for roll in planned.rolls]
        rows += (
            f"| `{profile}` | {planned.duration_s:,} s | {planned.duration_s * nodes * rate:,} "
            f"| {kinds.count('proxy')} | {kinds.count('target')} |\n"
        )
    assert marked("profiles") == rows, f"the block should read:\n{rows}"


def test_the_guide_lists_every_exit_code() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", marked("exit codes"), re.MULTILINE)} == codes


@pytest.mark.parametrize(("guide", "forms"), [(GUIDE, faults.FORMS), (LADDER_GUIDE, ladder_faults.FORMS)])
def test_the_guides_list_every_fault_in_its_grammar(guide: Path, forms: dict[str, str]) -> None:
    assert re.findall(r"^\| `(.*?)` \|", marked("faults", guide), re.MULTILINE) == list(forms.values())


def test_the_guide_lists_every_domain_that_a_stand_in_may_answer_for() -> None:
    sentence = re.search(r"refuses hosts that do not end in (.*?)\.\n", GUIDE.read_text(encoding="utf-8"))
    assert sentence
    assert re.findall(r"`(.*?)`", sentence[1]) == list(STAND_IN_DOMAINS)


def test_the_guide_lists_the_thresholds_that_every_plan_has() -> None:
    paragraph = re.search(
        r"Every plan has .*?`== 0` for (.*?), and a floor", GUIDE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert paragraph
    listed = [f"counter:benchmark.{name} == 0" for name in re.findall(r"`(.*?)`", paragraph[1])]
    assert listed == list(ZERO_FAILURES)


def test_the_guide_lists_every_name_that_a_threshold_may_have() -> None:
    listed = {name.rpartition(".")[2] for name in re.findall(r"`([a-z0-9_.]+)`", marked("threshold names"))}
    measured = {name.rpartition(".")[2] for name in (*names.COUNTERS, *names.STATISTICS)}
    reasons = {name.rpartition(".")[2] for name in names.RESET_REASONS}
    assert measured <= listed
    assert listed - measured - reasons == {"xxx", "timeout_s"}


def test_the_pins_are_the_locked_versions() -> None:
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE))
    pins = tomllib.loads((ROOT / "pins.toml").read_text())["versions"]
    assert pins == {name: locked[name] for name in pins}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)\s]*)?\)", document.read_text(encoding="utf-8")):
        file = (document.parent / target).resolve() if target else document
        assert file.exists(), f"{document.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor[1:] in slugs, f"{document.name}: {target}{anchor}"
