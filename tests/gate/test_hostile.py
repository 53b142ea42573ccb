"""Names are data: wherever a run holds a name, any text may stand, and is graded, shown and stored as that text."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as Xml
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from harness import cli
from harness.gate import Verdict, render
from harness.gate.verdict import FAIL, PASS, REFUSED
from tests.gate.clean_run import clean_run
from tests.gate.many import Many

NAMES = {
    "quotes": "a'b\"c`d",
    "sql": "'; DROP TABLE runs; --",
    "sql in a literal": "x' || (SELECT 1) || '",
    "script": "<script>alert(1)</script>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "entity": "&lt;b&gt;]]><![CDATA[<b>",
    "template": "{{ 7*7 }}{% raw %}{0}%s${HOME}",
    "shell": "$(touch pwned)`touch pwned`; touch pwned | touch pwned",
    "path": "../../../../pwned",
    "absolute path": "/tmp/../pwned",
    "right to left": "\u202egnp.exe\u2066",
    "combining": "Z" + "\u0301\u0336" * 40,
    "emoji": "\U0001f469\u200d\U0001f469\u200d\U0001f467",
    "escape codes": "\x1b[2J\x1b]0;pwned\x07",
    "nul": "a\x00b",
    "line ends": "x\nPASS  forged\r\nVERDICT PASS targets=9\u2028y\x0bz\x85",
    "surrogates": "\ud800x\udfff",
    "number": "1e999",
    "no name": "NULL",
    "markdown": "# [a](http://b) | ![c](d) @e #1",
    "formula": "=cmd|' /C calc'!A0",
    "long": "n" * 1_000_000,
}
NO_FIELD = ("line ends", "surrogates")  # cannot stand in a line of a file of text: what stands there is no name
NO_TEXT = ("surrogates",)  # a name that holds these is refused
IN_LINES = ("target", "target_in_plan", "url", "node", "pod", "address", "setting", "run_tag", "log", "churn")
ON_A_PAGE = (
    "quotes",
    "sql",
    "script",
    "attribute",
    "template",
    "shell",
    "path",
    "right to left",
    "escape codes",
    "long",
)


class Hostile:
    """The clean run with ``name`` in one place: what it then must come to, and the name as tables can hold it."""

    def __init__(self, place: str, name: str) -> None:
        self.place, self.name = place, name
        self.files = dict(clean_run())
        self.report = json.loads(self.files["report.json"])
        self.first = self.report["executions"][0]
        self.result = self.first["results"][0]
        self.word, self.rule, self.is_name = PASS, "", True
        getattr(self, place)()
        self.files["report.json"] = json.dumps(self.report).encode()
        if self.word == FAIL:  # what passed in log and stream is another run's
            self.files.pop("sortie.log", None)
        del self.files["results.jsonl"]

    def edit(self, file: str, old: str, new: str) -> None:
        text = self.files[file].decode()
        assert old in text
        self.files[file] = text.replace(old, new).encode("utf-8", "surrogatepass")

    def target(self) -> None:
        del self.files["plan.yaml"], self.files["sortie.log"]
        self.edit("shares.tsv", "cart\t", f"{self.name}\t")
        self.first["label"] = f"mesh/{self.name}"

    def target_in_plan(self) -> None:
        self.target()
        self.files["plan.yaml"] = clean_run()["plan.yaml"]
        self.edit("plan.yaml", "name: cart", f"name: {json.dumps(self.name)}")

    def url(self) -> None:
        del self.files["plan.yaml"]
        self.edit("shares.tsv", "http://cart.shop.internal:18081/", self.name)

    def node(self) -> None:
        self.edit("engines.tsv", "\tnorth\t", f"\t{self.name}\t")

    def pod(self) -> None:
        self.edit("engines.tsv", "engine-north-x7k2p", self.name)

    def address(self) -> None:
        self.edit("engines.tsv", "10.30.1.11", self.name)
        for execution in self.report["executions"]:
            execution["backends"][0] = execution["results"][0]["backend"] = f"{self.name}:8443"
        del self.files["sortie.log"]

    def setting(self) -> None:
        self.edit("run.env", "LABEL=nightly", f"LABEL={self.name}")

    def run_tag(self) -> None:
        self.edit("run.env", "RUN_TAG=soak-20261101T060809Z", f"RUN_TAG={self.name}")

    def scenario(self) -> None:
        self.word, self.rule = FAIL, "report_failed"
        self.first |= {"scenario": self.name}

    def pool(self) -> None:
        del self.files["plan.yaml"]
        self.first |= {"pool": self.name, "dns": self.name}

    def statistic(self) -> None:
        self.result["statistics"][self.name] = {"count": 1, "unit": self.name, "p50": 1, "p99": 2}

    def counter(self) -> None:
        self.result["counters"][f"benchmark.{self.name}"] = self.first["totals"][f"benchmark.{self.name}"] = 5

    def failure(self) -> None:
        self.word, self.rule = FAIL, "failures"
        self.result["counters"][f"benchmark.stream_resets_{self.name}"] = 5

    def threshold(self) -> None:
        self.word, self.rule = FAIL, "threshold"
        self.first["thresholds"][0] |= {"pass": False, "actual": self.name}
        self.first["thresholds"].append({"expr": self.name, "scope": self.name, "pass": False, "actual": self.name})

    def lost(self) -> None:
        self.word, self.rule = FAIL, "lost_backend"
        self.first["backend_errors"] = [{"backend": self.result["backend"], "error": self.name}]

    def error(self) -> None:
        self.word, self.rule = FAIL, "execution_error"
        self.first["error"] = self.name

    def log(self) -> None:
        self.edit("sortie.log", "(scenario mesh, 10m0.64s)", f"(scenario {self.name}, 10m0.64s)")

    def churn(self) -> None:
        self.edit("churn.log", "churn driver start", f"churn driver {self.name} start")


PLACES = [name for name in vars(Hostile) if not name.startswith("_") and name != "edit"]


def runs() -> Iterator[tuple[str, Hostile]]:
    """Every name in every place; the long one where it is printed."""
    for about, name in NAMES.items():
        for place in PLACES if about != "long" else ("target", "node", "failure", "lost"):
            hostile = Hostile(place, name)
            hostile.is_name = not (about in NO_FIELD and place in IN_LINES)
            yield f"{about} as {place}", hostile


def stored(name: str) -> str:
    """Lone surrogates are no text; they are stored as ``?``."""
    return name.encode("utf-8", "replace").decode()


def test_graded_as_what_it_is_or_refused(tmp_path: Path) -> None:
    """The verdict that the run has anyway, with the name in it, and no line that a name made."""
    many, refused = Many[tuple[str, Hostile]](tmp_path), []

    def judge(found: Iterator[tuple[tuple[str, Hostile], Verdict]]) -> None:
        for (about, run), verdict in found:
            lines = render(verdict, per_node=True)
            assert all(line.isprintable() for line in lines), about
            if verdict.word == REFUSED:
                refused.append(about)
                assert len(lines) == 1, about
                continue
            assert sum(line.startswith("VERDICT") for line in lines) == 1, about
            if not run.is_name:
                continue
            assert verdict.word == run.word, (about, lines[:3])
            assert not run.rule or run.rule in {f.rule for t in verdict.targets for f in t.findings}, about
            assert sum(line.startswith(("PASS", "FAIL")) for line in lines) == len(verdict.targets) == 3, about
            json.dumps(verdict.to_json(), allow_nan=False)
            names = {
                "target": [target.target for target in verdict.targets],
                "node": [node.node for target in verdict.targets for node in target.nodes],
                "failure": [f.failure_class for target in verdict.targets for f in target.findings],
            }
            wanted = f"stream_resets_{run.name}" if run.place == "failure" else run.name
            assert run.place not in names or stored(wanted) in names[run.place], about

    for about, run in runs():
        judge(many.take((about, run), run.files))
    judge(many.rest())
    # YAML that holds these as they are is none; half a character is no name, and what holds NUL is no log
    allowed = {f"{about} as {place}" for about in NO_FIELD for place in IN_LINES} | {"nul as log"}
    allowed |= {f"surrogates as {place}" for place in PLACES}
    assert set(refused) <= allowed, sorted(set(refused) - allowed)


class Tags(HTMLParser):
    """Which tags a page has, each with the names of its attributes."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.seen: set[tuple[str, ...]] = set()
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add((tag, *sorted(name for name, _ in attrs)))


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below the folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def harness(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """A command as a user types it: exit code and output."""
    code = cli.main([str(word) for word in words])
    return code, capsys.readouterr().out


def adopt_and_show(place: str, name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> set[tuple[str, ...]]:
    """Adopt the run in the folder ``here``, grade it and make its page, JUnit and Markdown; returns the page's tags."""
    hostile = Hostile(place, name)
    text = name.split("\n")[0].encode("utf-8", "replace")
    hostile.files["run.env"] = hostile.files["run.env"].replace(b"nightly", text)
    given, store, ci = here / "given", here / "runs", here / "ci"
    for folder in (given, ci):
        folder.mkdir(parents=True)
    for file, content in hostile.files.items():
        (given / file).write_bytes(content)
    before = tree(here)
    run = json.loads(harness(capsys, "adopt", given, "--runs", store, "--json")[1])["run"]
    asked = ("--per-node", "--junit", ci / "junit.xml", "--markdown", ci / "summary.md")
    lines = harness(capsys, "gate", run, "--runs", store, *asked)[1].split("\n")
    assert [number for number, line in enumerate(lines) if line.startswith("VERDICT")] == [len(lines) - 2]
    assert lines[-2].startswith(f"VERDICT {hostile.word} targets=3 ")
    assert harness(capsys, "report", run, "--runs", store)[0] == 0
    after = tree(here)
    fresh = after.keys() - before.keys()
    assert {path: after[path] for path in before} == before
    assert all(path.startswith((f"runs/{run}/", "ci/junit.xml", "ci/summary.md")) for path in fresh), sorted(fresh)
    Xml.fromstring(after["ci/junit.xml"])  # noqa: S314 - our own
    assert not re.search(rb"<(?!/?(table|t[rdh]|code|summary|details|br)\b)[a-z]", after["ci/summary.md"])
    return Tags(after[f"runs/{run}/report.html"]).seen


@pytest.mark.parametrize("place", ["failure", "node"])
def test_nothing_is_run_and_nothing_written_outside_the_run(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Through every command, in a run that fails and one that passes: the pages have the tags of any other page."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    expected = adopt_and_show(place, "plain", tmp_path / "plain", capsys)
    for number, (about, name) in enumerate(NAMES.items()):
        if (place == "failure" and about not in NO_TEXT) or about in ON_A_PAGE:
            assert adopt_and_show(place, name, tmp_path / str(number), capsys) == expected, about
    assert not list((tmp_path / "cwd").iterdir())
    assert not [path for path in tmp_path.rglob("*") if "pwned" in path.name]
