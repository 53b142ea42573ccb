"""Pages from templates: what is put in is escaped and without controls, and a name that is not there is an error."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from harness.report import words
from harness.terminal import printable

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(template: str, context: Mapping[str, Any]) -> str:
    """The page that ``template`` (a file under ``harness/report``) makes of ``context``."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("harness", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    for function in (
        breakable,
        words.number,
        words.milliseconds,
        words.count,
        words.mebibytes,
        words.cores,
        words.seconds,
        words.utc,
    ):
        environment.filters[function.__name__] = function
    return environment


def shown(value: Any) -> Any:
    """A text as it is put into a page: as a terminal shows it. What is markup already keeps the lines it has."""
    from markupsafe import Markup

    if isinstance(value, Markup):
        return Markup("\n").join(Markup(printable(line)) for line in value.split("\n"))  # noqa: S704 - markup before
    return printable(value) if isinstance(value, str) else value


def breakable(text: str) -> Any:
    """``text`` for a narrow place: a name may be broken after an underscore, and nowhere else."""
    from markupsafe import Markup, escape

    return Markup("_<wbr>").join(escape(part) for part in printable(text).split("_"))
