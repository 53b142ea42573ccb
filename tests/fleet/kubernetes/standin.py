"""Stand-ins for helm and cosign: programs that note how they were called and answer as they were told.

What the real programs do is tested where there is a cluster, a registry and a Sigstore of the test.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCRIPT = """#!{python}
import json, os, sys, time
from pathlib import Path
here = Path({here!r})
arguments = sys.argv[1:]
kept = {{key: value for key, value in os.environ.items() if key.startswith(("HELM_", "HARNESS_", "KUBE"))}}
with (here / "calls.jsonl").open("a") as file:
    file.write(json.dumps({{"arguments": arguments, "environment": kept}}) + "\\n")
for words, answer in json.loads((here / "told.json").read_text()):
    if all(word in arguments for word in words):
        break
else:
    sys.exit("nothing was told of " + " ".join(arguments))
time.sleep(answer.get("pause_s", 0))
if "packed" in answer:
    folder = Path(arguments[arguments.index("--destination") + 1])
    for name in answer.get("names", ["chart-1.0.0.tgz"]):
        (folder / name).write_text(answer["packed"])
sys.stdout.write(answer.get("out", ""))
sys.stderr.write(answer.get("err", ""))
sys.exit(answer.get("code", 0))
"""


@dataclass
class StandIn:
    """One such program in ``folder``. Of several that match a call the one told last is answered."""

    folder: Path
    name: str
    told: list[tuple[list[str], dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.program.write_text(SCRIPT.format(python=sys.executable, here=str(self.folder)))
        self.program.chmod(0o755)
        (self.folder / "told.json").write_text("[]")

    @property
    def program(self) -> Path:
        """The program."""
        return self.folder / self.name

    def answer(self, *words: str, **answer: Any) -> None:
        """What to do when all ``words`` are arguments: ``code``, ``out``, ``err``, ``packed``, ``pause_s``."""
        self.told.insert(0, (list(words), answer))
        (self.folder / "told.json").write_text(json.dumps(self.told))

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of every call."""
        return [call["arguments"] for call in self._noted()]

    @property
    def environments(self) -> list[dict[str, str]]:
        """What each call had of the environment that concerns it."""
        return [call["environment"] for call in self._noted()]

    def _noted(self) -> list[dict[str, Any]]:
        log = self.folder / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
