"""The command line: what is asked for, or one sentence; nothing starts by accident."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.graph import invocation, lock
from harness.graph.receipts import PROJECT
from harness.runs import RunFolder
from tests.conftest import Doit

REFUSED = [
    (("soak", "profil=soak"), "error: command line: 'profil' is no setting; did you mean profile?\n"),
    (("soak", "profile=fast"), "error: command line: profile=fast must be one of quick, e2e, soak\n"),
    (("soak", "run=../x"), "error: '../x' cannot name a run"),
    (("soak", "rate=13"), "error: targets.tsv: target 'svc-1' would get 5.571 rps of rate=13"),
    (("soak", "fault=melt node-a at 3s"), "error: "),
    (("soak", "thresholds=latency_2xx.p99 ~ 3"), "error: "),
    (("soak", "churn=/nonexistent.toml"), "error: /nonexistent.toml: the schedule cannot be read"),
    (("soak", "-n", "2"), "error: stages run one after another"),
    (("gate:nobody",), "error: there is no run nobody in "),
    (("gate:../x",), "error: '../x' cannot name a run"),
    (("gate:x", "run=y"), "error: run=ID goes with soak"),
    (("reset-dep",), "error: doit reset-dep has no use here"),
    (("forget", "gate:x"), "error: doit forget has no use here"),
    (("gate",), "error: gate of which run? ./doit gate:RUN; "),
    (("plan", "nodes=3"), "error: plan of which run? ./doit plan:RUN; "),
    (
        ("free-check",),
        "error: free-check of which run? ./doit free-check:RUN; ./doit shows the last runs, "
        "./doit e8 arm=realism makes one",
    ),
    (("soak", "--foo"), "error: --foo is no option here; settings are given as key=value"),
    (
        ("soak", "pin_file=/nope"),
        "error: /nope: the pin file cannot be read (No such file or directory); pin_file= names it",
    ),
    (("soak", "churn=off", "fault=kill-churn at 3s"), "error: kill-churn: this run has no churn to kill"),
    (("soak", "proxy.drain_s=9"), "error: proxy.drain_s=9 must be under proxy.parent_shutdown_s=2"),
    (("sook",), "error: there is no task 'sook'; did you mean soak?"),
    (("soak", "foo"), "error: there is no task 'foo'; ./doit list shows them"),
    (("info",), "error: info of which task? ./doit info gate:RUN"),
]


@pytest.mark.parametrize(
    ("words", "sentence"), REFUSED, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_what_cannot_be_done_is_refused_with_exit_3_and_nothing_written(
    doit: Doit, words: tuple[str, ...], sentence: str
) -> None:
    code, output = doit(*words)
    assert code == 3, output
    assert output.startswith(sentence)
    assert "Traceback" not in output
    assert [path.name for path in doit.runs.glob("*")] in ([], [lock.LOCK])


@pytest.mark.parametrize(
    "host", ["example.com", "10.0.0.1", "localhost", "x@a.test", "a.internal.org", "a.test:0", "a.test:x"]
)
def test_a_target_that_looks_like_a_real_host_is_refused(doit: Doit, tmp_path: Path, host: str) -> None:
    """The embedded fleet answers for every target itself: its verdict must not be taken for one of another host."""
    targets = tmp_path / "t.tsv"
    targets.write_text(f"alpha http://{host}/ 1\n")
    code, output = doit("soak", targets=str(targets), rate="4")
    assert code == 3, output
    assert (
        "fleet=local answers for 'alpha' with a server of its own, so the host in" in output
        or "@" in host
        or ":" in host
    )
    assert output.count("\n") == 1


def test_next_steps_carry_the_runs_folder_that_was_named(doit: Doit, tmp_path: Path) -> None:
    code, output = doit(f"runs={tmp_path / 'my runs'}")
    assert code == 0
    assert f"next: ./doit soak 'runs={tmp_path / 'my runs'}'" in output or f"runs='{tmp_path / 'my runs'}'" in output


def test_the_command_line_knows_the_tasks_of_the_graph(doit: Doit) -> None:
    code, output = doit("list", "-q")
    assert code == 0
    assert sorted(line.split()[0] for line in output.splitlines()) == sorted(invocation.TASKS)


def test_bare_doit_starts_nothing_and_says_what_to_type(doit: Doit) -> None:
    code, output = doit()
    assert (code, output) == (
        0,
        f"no runs in {doit.runs} yet\nnext: ./doit soak    a run of 60 s on this machine, from pins to verdict\n"
        "      ./doit e8    two ladders of concurrent turns on this machine, 6 to 8 minutes\n",
    )
    assert not doit.runs.exists()


def begun(doit: Doit) -> RunFolder:
    """The folder of a run that has written its first file."""
    folder = RunFolder(doit.runs / "first")
    folder.root.mkdir(parents=True)
    folder.run_json.write_text("{}")
    return folder


def test_a_second_soak_is_refused_in_a_sentence(doit: Doit) -> None:
    """The folder is held by the kernel: whoever holds it is named, and nothing of the second is written."""
    folder = begun(doit)
    with lock.hold(doit.runs):
        lock.begin(folder)
        code, output = doit("soak")
    assert code == 3
    assert output.startswith("error: run first is live under another ./doit (pid ")
    assert output.count("\n") == 1
    assert not list(doit.runs.glob("quick-*"))


def test_an_unfinished_run_is_named_with_the_command_that_goes_on(doit: Doit) -> None:
    lock.begin(begun(doit))
    code, output = doit("soak")
    assert (code, output) == (
        3,
        "error: run first is unfinished: continue it with ./doit soak run=first, "
        "or end it with ./doit teardown:first\n",
    )


def test_a_lock_whose_holder_was_killed_holds_nobody(doit: Doit) -> None:
    doit.runs.mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", f"from harness.graph import lock\nfrom pathlib import Path\nimport time\n"
         f"with lock.hold(Path({str(doit.runs)!r})):\n print('held', flush=True)\n time.sleep(60)"],
        cwd=PROJECT, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert child.stdout is not None
    child.stdout.readline()
    assert lock.is_held(doit.runs)
    child.kill()
    child.wait()
    child.stdout.close()
    assert not lock.is_held(doit.runs)


def test_plain_doit_is_the_same_command(doit: Doit) -> None:
    """``doit`` typed in the environment hands over to the same entry, with the same refusals."""
    found = subprocess.run(
        [str(Path(sys.executable).with_name("doit")), "soak", "profil=soak"],
        cwd=PROJECT, env=doit.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (3, REFUSED[0][1])
