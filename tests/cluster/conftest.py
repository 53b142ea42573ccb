"""The test cluster as fixtures, for tests with the marker ``cluster``.

Here: five real nodes in a network namespace of their own, in which the tests themselves run. In CI a cluster that does
not start fails them; elsewhere they are skipped, by name and with the reason. On a user's own cluster:
``pytest tests/cluster --cluster-context NAME --i-may-break-it``; tests that break nodes or the API never run there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.cluster import images, supplies
from tests.cluster.cluster import Cluster, Reached, running
from tests.cluster.supplies import SupplyError

NODES = 5
LIMIT_S = 900  # of a test with what it waits for; the first one waits for the cluster
BUILD_LIMIT_S = 3000  # in CI it is built first where there is none
THROWAWAY = ("kind-", "k3d-")
IN_CI = os.environ.get("CI") == "true"
INSIDE = pytest.StashKey[ExitStack]()
RUNNING = pytest.StashKey[Cluster]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cluster")
    group.addoption("--cluster-context", action="append", default=[], metavar="NAME", help="tests run on this cluster")
    group.addoption("--i-may-break-it", action="store_true", help="what runs on that cluster may be lost")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cluster: needs a real Kubernetes of several nodes (root, slow)")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("cluster") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(BUILD_LIMIT_S if IN_CI else LIMIT_S))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test on the cluster runs inside the cluster's network namespace, and so does everything that it starts."""
    cluster = item.session.stash.get(RUNNING, None)
    with ExitStack() as stack:
        item.session.stash[INSIDE] = stack
        if cluster is not None and item.get_closest_marker("cluster"):
            stack.enter_context(cluster.namespace.entered())
        return (yield)


def context_of(config: pytest.Config) -> str:
    """The user's own cluster, as far as one is named and may be broken; else empty. Raises UsageError."""
    names: list[str] = config.getoption("--cluster-context", default=[]) or []
    if not names:
        return ""
    name = names[0]
    if set(names) != {name}:
        raise pytest.UsageError("--cluster-context names more than one cluster")
    if not config.getoption("--i-may-break-it", default=False):
        raise pytest.UsageError(f"tests may break the cluster {name}: say so with --i-may-break-it")
    if not name.startswith(THROWAWAY) and len(names) < 2:
        raise pytest.UsageError(f"{name} is no kind-* or k3d-*: give --cluster-context {name} twice if it is meant")
    return name


@pytest.fixture(scope="session")
def reached(request: pytest.FixtureRequest) -> Iterator[Reached]:
    """A cluster to run on: the one named on the command line, or else one that is made here."""
    if name := context_of(request.config):
        yield Reached(name)
        return
    if not IN_CI and (why := supplies.missing()):
        pytest.skip(f"no test cluster: {why}")
    with ExitStack() as stack:
        try:
            if IN_CI:
                supplies.packages()
            cluster = stack.enter_context(running(NODES))
        except SupplyError as error:
            text = f"the test cluster did not start: {error}"
            pytest.fail(text, pytrace=False) if IN_CI else pytest.skip(text)
        request.session.stash[RUNNING] = cluster
        # the test that made it is inside from now on, later ones from their beginning
        request.session.stash[INSIDE].enter_context(cluster.namespace.entered())
        yield cluster
        del request.session.stash[RUNNING]


@pytest.fixture(scope="session")
def cluster(reached: Reached) -> Cluster:
    """The cluster that was made here, for tests that break nodes or the API; skipped on a user's own."""
    if not isinstance(reached, Cluster):
        pytest.skip("node and API faults are never made on a cluster of somebody's own")
    return reached


@pytest.fixture
def mesh_image(cluster: Cluster) -> str:
    """The image of targets and node proxies, by digest."""
    return cluster.registry.push(images.mesh())


@pytest.fixture
def harness_image(cluster: Cluster) -> str:
    """The image of engine and driver, by digest."""
    return cluster.registry.push(images.harness())


@pytest.fixture
def own_namespace(cluster: Cluster) -> Callable[[], str]:
    """Makes a namespace for one test; its end is not waited for."""
    import secrets

    def make() -> str:
        name = f"test-{secrets.token_hex(3)}"
        cluster.api.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        return name

    return make
