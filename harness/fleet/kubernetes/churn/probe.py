"""What the pod of a new ServiceAccount runs: python3 and nothing else. It asks every target, and tells what came back.

Argument: JSON {"for_s": seconds, "every_s": seconds, "limit_s": seconds, "urls": {name: url}}. The tally goes to
stdout and, for a reader that cannot read logs, into the container's termination message (at most 4096 bytes).
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TERMINATION_LOG = "/dev/termination-log"
LONGEST_BYTES = 4096


def ask(url: str, limit_s: float) -> int | None:
    """The status of one GET; None when there was no answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Still)
    request = urllib.request.Request(url, headers={"User-Agent": "aether-soak-newsa", "Connection": "close"})  # noqa: S310
    try:
        with opener.open(request, timeout=limit_s) as response:
            response.read()
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except (OSError, ValueError, http.client.HTTPException):
        return None


class _Still(urllib.request.HTTPRedirectHandler):
    """A redirect is an answer, not a way."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: Any) -> None:
        return None


def drive(url: str, wanted: dict[str, Any], tally: dict[str, int]) -> None:
    """Ask ``url`` until the time is over; ``tally`` gets counts by status, ``connerr`` for no answer."""
    until = time.monotonic() + wanted["for_s"]
    while time.monotonic() < until:
        status = ask(url, wanted["limit_s"])
        key = "connerr" if status is None else str(status)
        tally[key] = tally.get(key, 0) + 1
        time.sleep(wanted["every_s"])


def main() -> None:
    """Drive all targets at once, then tell."""
    wanted = json.loads(sys.argv[1])
    tallies: dict[str, dict[str, int]] = {name: {} for name in wanted["urls"]}
    threads = [
        threading.Thread(target=drive, args=(url, wanted, tallies[name])) for name, url in wanted["urls"].items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = json.dumps(tallies, sort_keys=True)
    print(text)
    if len(text.encode()) <= LONGEST_BYTES:
        Path(TERMINATION_LOG).write_text(text)


if __name__ == "__main__":
    main()
