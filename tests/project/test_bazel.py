"""BUILD.bazel and MODULE.bazel against pyproject.toml and the tree, so that they do not rot where nobody runs Bazel."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness import __version__

# Tools of developers: started as programs, imported by no test.
TOOLS = {"mypy", "ruff", "types-pyyaml"}


class Starlark:
    """The calls of a build file. Their literals are read as Python's, which they are."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root
        self.text = (root / name).read_text()
        self.calls = [node for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.Call)]

    def call(self, function: str, name: str | None = None) -> dict[str, ast.expr]:
        """Keyword arguments of the one call of ``function``, or of the one with that ``name``."""
        found = []
        for call in self.calls:
            if ast.unparse(call.func) == function:
                arguments = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
                if name is None or ast.literal_eval(arguments["name"]) == name:
                    found.append(arguments)
        assert len(found) == 1, f"{function}({name}): {len(found)} calls"
        return found[0]

    def files(self, expression: ast.expr) -> set[Path]:
        """What a list, a glob() or a sum of both stands for in the tree."""
        if isinstance(expression, ast.BinOp):
            return self.files(expression.left) | self.files(expression.right)
        if isinstance(expression, ast.Call):
            patterns = ast.literal_eval(expression.args[0])
            excluded = [ast.literal_eval(k.value) for k in expression.keywords if k.arg == "exclude"]
            return self._glob(patterns) - self._glob([pattern for group in excluded for pattern in group])
        return {Path(name) for name in ast.literal_eval(expression)}

    def _glob(self, patterns: list[str]) -> set[Path]:
        found: set[Path] = set()
        for pattern in patterns:
            matches = {path.relative_to(self.root) for path in self.root.glob(pattern) if path.is_file()}
            assert matches or pattern.endswith((".pyc", ".py", "/*")), f"{pattern} matches nothing"
            found |= matches
        return found


@pytest.fixture(scope="module")
def build(root: Path) -> Starlark:
    return Starlark(root, "BUILD.bazel")


@pytest.fixture(scope="module")
def module(root: Path) -> Starlark:
    return Starlark(root, "MODULE.bazel")


def names(requirements: list[str]) -> set[str]:
    """Normal package names of requirement texts or of ``@pypi//`` labels."""
    return {
        re.sub(r"[-_.]+", "-", re.split(r"[<>=!~;\[ ]", item.removeprefix("@pypi//"))[0]).lower()
        for item in requirements
    }


def test_the_library_depends_on_what_the_project_depends_on(build: Starlark, pyproject: dict[str, Any]) -> None:
    project = pyproject["project"]
    deps = ast.literal_eval(build.call("py_library", "harness")["deps"])
    assert names(project["dependencies"] + project["optional-dependencies"]["local"]) == names(deps)


def test_the_tests_depend_on_the_library_and_the_developer_group(build: Starlark, pyproject: dict[str, Any]) -> None:
    deps = ast.literal_eval(build.call("py_test", "tests")["deps"])
    assert ":harness" in deps
    assert names(pyproject["dependency-groups"]["dev"]) - TOOLS == names([d for d in deps if d != ":harness"])


def test_every_source_is_in_the_library_and_every_other_file_beside_it(
    build: Starlark, project_files: list[Path]
) -> None:
    library = build.call("py_library", "harness")
    sources = build.files(library["srcs"])
    data = build.files(build.call("filegroup", "data")["srcs"])
    assert ast.literal_eval(library["data"]) == [":data"]
    rooms = [path for path in project_files if path.parts[0] in ("harness", "sql")]
    assert {path for path in rooms if path.suffix == ".py"} | {Path("dodo.py")} == sources
    assert {path for path in rooms if path.suffix != ".py"} <= data
    assert not (sources | data) - set(project_files), "named, but not in the tree"


def test_every_test_and_its_data_reach_the_test_target(build: Starlark, project_files: list[Path]) -> None:
    target = build.call("py_test", "tests")
    reached = build.files(target["srcs"]) | build.files(target["data"])
    assert {path for path in project_files if path.parts[0] == "tests"} <= reached
    assert Path(ast.literal_eval(target["main"])) in build.files(target["srcs"])


def test_the_module_has_the_projects_version_and_lock(root: Path, module: Starlark, pyproject: dict[str, Any]) -> None:
    assert __version__ == pyproject["project"]["version"] == ast.literal_eval(module.call("module")["version"])
    lock = ast.literal_eval(module.call("pip.parse")["requirements_lock"])
    assert (root / lock.removeprefix("//:")).is_file()
    versions = {ast.literal_eval(module.call(call)["python_version"]) for call in ("pip.parse", "python.toolchain")}
    assert len(versions) == 1


@pytest.mark.parametrize(
    ("body", "code"), [("def test_it():\n    pass\n", 0), ("def test_it():\n    assert 0\n", 1), ("", 5)]
)
def test_the_test_main_passes_only_when_a_test_ran_and_passed(root: Path, tmp_path: Path, body: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(body)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    command = [sys.executable, str(root / "tests_main.py"), "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert code == done.returncode, done.stdout + done.stderr
