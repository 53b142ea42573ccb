"""The commands that run in a sandbox: the repository they work on, the work itself, how it is counted and timed.

All of them are bash, start in the sandbox's own folder and need git. The repository is the same to the byte wherever it
is made, so its commit says whether a sandbox was seeded.
"""

from __future__ import annotations

FILES = 256  # fixed: cost does not grow with the number of files in any order, so it is no knob for calibration
CHANGED_EVERY = 8
LINES = 60
EXECS_FILE = ".e8-execs"
SPANS_FILE = ".e8-spans"
TRIVIAL = "cd repo && true"

_PLAIN_GIT = "export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_OPTIONAL_LOCKS=0 GIT_PAGER=cat"

SEED = f"""set -e
{_PLAIN_GIT} GIT_DEFAULT_HASH=sha1
export GIT_AUTHOR_NAME=e8 GIT_AUTHOR_EMAIL=e8@localhost GIT_AUTHOR_DATE=2026-01-01T00:00:00Z
export GIT_COMMITTER_NAME=e8 GIT_COMMITTER_EMAIL=e8@localhost GIT_COMMITTER_DATE=2026-01-01T00:00:00Z
rm -rf repo {EXECS_FILE} {SPANS_FILE}
mkdir -p repo/d{{0..15}}
cd repo
for ((i = 0; i < {FILES}; i++)); do
  printf "file $i line %d\\n" {{1..{LINES}}} > d$((i % 16))/f$i.txt
done
git -c init.defaultBranch=main init -q
git add -A
git commit -q -m first
for ((i = 0; i < {FILES}; i += {CHANGED_EVERY})); do
  echo changed >> d$((i % 16))/f$i.txt
done
git commit -q -a -m second
# git compares whole seconds: files of the index's own second are read again each time, in one sandbox and not another
touch -t 202601010000 d*/f*
git read-tree HEAD
git update-index -q --refresh
git rev-parse HEAD
"""


def git_chain(repeats: int) -> str:
    """The read-mostly work of the realism arm: ``repeats`` is what calibration turns."""
    return (
        f"{_PLAIN_GIT}; cd repo && for ((i = 0; i < {repeats}; i++)); do "
        "git status --short && git diff --stat HEAD~1 && git log --oneline -5 || exit 1; done"
    )


def counted(command: str) -> str:
    """``command``, leaving one line behind each time it succeeded."""
    return f"( {command} ) && echo 1 >> {EXECS_FILE}"


def spanned(command: str) -> str:
    """``command``, leaving behind when it began and ended each time it succeeded."""
    return f"LC_ALL=C; b=$EPOCHREALTIME; ( {command} ) && echo $b $EPOCHREALTIME >> {SPANS_FILE}"


def timed(command: str, samples: int) -> str:
    """Prints begin and end of each of ``samples`` runs, whose own output is thrown away."""
    return (
        f"LC_ALL=C; for ((sample = 0; sample < {samples}; sample++)); do b=$EPOCHREALTIME; "
        f"( {command} ) > /dev/null 2>&1 || exit 1; echo $b $EPOCHREALTIME; done"
    )


def taken(file: str) -> str:
    """Prints what a counting command left behind, and takes it away."""
    return f"cat {file} 2> /dev/null; rm -f {file}"


def read_spans_ms(output: str) -> list[float]:
    """Milliseconds between the two moments of each line. Raises ValueError for another output."""
    spans = []
    for line in output.splitlines():
        begin, end = map(float, line.split())
        spans.append(round((end - begin) * 1000, 3))
    return spans
