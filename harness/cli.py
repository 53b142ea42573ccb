"""``harness``: the functions of this project for people and scripts, on finished and running runs.

A command is imported when it is used, and what is heavy (duckdb, pyarrow, jinja2) by the command that needs it: half
of the time of a grading would else go into modules that it never calls. Exit codes: see harness/errors.py.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import NoReturn

import click

from harness import __version__
from harness.errors import EXIT_INTERNAL, EXIT_PASS, EXIT_STAGE, EXIT_USAGE, HarnessError
from harness.terminal import printable

COMMANDS = ("adopt", "explain", "gate", "report", "runs", "sql", "watch")
"""Each is the function of its own name in harness/commands/<name>.py."""


class LazyGroup(click.Group):
    """A group whose commands are imported one by one, when they are run or when --help tells of them all."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, sorted."""
        return sorted({*COMMANDS, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, None when there is none."""
        if cmd_name in COMMANDS and cmd_name not in self.commands:
            self.add_command(getattr(import_module(f"harness.commands.{cmd_name}"), cmd_name))
        return self.commands.get(cmd_name)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="harness", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="On an unexpected error, show where it happened.")
def cli(debug: bool) -> None:
    """Grade, read and compare load-test runs.

    \b
    A run is made by `./doit soak`, or adopted. What you can do with it afterwards:
      harness adopt DIRECTORY...        take in runs that were saved elsewhere
      harness runs                      what is there, and how it ended
      harness gate RUN                  grade it, per target and per node
      harness report RUN                one offline page about it
      harness sql run-by-run            the first questions across runs

    Exit codes: 0 PASS (or done), 1 FAIL, 2 UNPROVEN or REFUSED, 3 usage, 4 a stage failed, 5 internal.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the process's exit code. Every error is one sentence on stderr.

    A command line without a command gets the help there.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = arguments[:1] == ["--debug"]
    try:
        result = cli.main(args=arguments, prog_name="harness", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return EXIT_USAGE
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "harness"
        return _say(f"{error.format_message().rstrip('.')}; `{where} --help` shows how it is meant.", EXIT_USAGE)
    except click.ClickException as error:
        return _say(error.format_message(), EXIT_USAGE)
    except HarnessError as error:
        return _say(error.message, error.exit_code)
    except BrokenPipeError:
        # The reader (`| head`) has gone; what is still buffered has nowhere to go either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (KeyboardInterrupt, click.Abort):
        return _say("stopped.", 128 + signal.SIGINT)
    except OSError as error:
        return _say(f"{error.filename or 'a file'}: {error.strerror or error}.", EXIT_STAGE)
    except Exception as error:  # the last resort: a crash must never look like a verdict
        if debug:
            raise
        kind = type(error).__name__
        return _say(f"something unexpected happened ({kind}: {error}); `harness --debug …` shows where.", EXIT_INTERNAL)
    return result if isinstance(result, int) else EXIT_PASS


def _say(message: str, code: int) -> int:
    print(f"harness: {printable(' '.join(message.split()))}", file=sys.stderr)
    return code


def run() -> NoReturn:
    """``main`` as a process, ended without taking the interpreter and duckdb to pieces, a twentieth of a grading.

    ``main`` has flushed what was said, files were fsynced, and no thread or child outlives its command.
    """
    code = main()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    run()
