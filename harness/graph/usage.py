"""``./doit --help``: what can be typed, with an example; of a kind of run its settings, with their defaults."""

from __future__ import annotations

from harness.settings import SETTINGS, means_to
from harness.store.columns import LADDER, SOAK

GENERAL = """\
./doit                     the last runs, and what to type next; starts nothing
./doit soak [key=value …]  a load through node proxies that are rolled; ./doit soak --help lists its settings
./doit e8 [key=value …]    ladders of concurrent turns; ./doit e8 --help lists its settings
./doit gate:RUN            grade a saved run again; also tables:RUN, report:RUN, teardown:RUN, free-check:RUN
./doit list                every task; ./doit info gate:RUN says why one would run, or not

Example:
  ./doit soak profile=e2e run=before-upgrade

Exit codes: 0 PASS (or done), 1 FAIL, 2 UNPROVEN or REFUSED, 3 usage, 4 a stage failed, 5 internal.
"""
OF = {
    SOAK: ("A full run, from pins to verdict.", "./doit soak nodes=3 rate=120 run=before-upgrade"),
    LADDER: ("Ladders of concurrent turns, one run for each arm.", './doit e8 arm=capacity ladder="auto 64"'),
    "e8-soak": ("One rung held: what grows with the turns?", "./doit e8-soak e8.soak_c=4 e8.soak_s=3600"),
    "e8-lag-check": ("Does lag tell a starved worker from an idle one?", "./doit e8-lag-check"),
}


def text(words: list[str]) -> str:
    """The help for these words of a command line."""
    name = next((word for word in words if word in OF), None)
    if name is None:
        return GENERAL
    about, example = OF[name]
    known = [setting for setting in SETTINGS if means_to(setting.key, name)]
    width = max(len(setting.key) for setting in known)
    rows = [
        f"  {setting.key:<{width}}  {setting.help}" + (f" [{setting.default}]" if setting.default != "" else "")
        for setting in known
    ]
    return "\n".join([about, "", "Settings, as key=value [default]:", *rows, "", "Example:", f"  {example}", ""])
