"""Where engines send live metrics: an IP literal in the plan, or nothing, and then it is said why."""

from __future__ import annotations

import ipaddress

from harness.errors import FleetError
from harness.fleet.kubernetes.api import Api
from harness.fleet.kubernetes.config import HARNESS, ClusterConfig

AUTO, OFF = "auto", "off"
FLUSH = "5s"
PREFIX = "sortie"


def resolve_statsd(config: ClusterConfig, api: Api) -> tuple[str, str]:
    """``IP:PORT``, empty for none, and what was seen. Raises FleetError for a setting that is no address."""
    if config.statsd == OFF:
        return "", "no live metrics: k8s.statsd=off"
    if config.engine == HARNESS:
        return "", "no live metrics: the harness's own engine sends none"
    if config.statsd != AUTO:
        return _literal(config.statsd), f"live metrics go to {config.statsd}"
    namespace, _, name = config.statsd_service.partition("/")
    service = api.find("Service", name, namespace) if name else None
    spec = (service or {}).get("spec") or {}
    ports = [port.get("port") for port in spec.get("ports") or [] if port.get("protocol") == "UDP"]
    if not ports or not spec.get("clusterIP") or spec["clusterIP"] == "None":
        return "", f"no live metrics: there is no Service {config.statsd_service} with an address and a UDP port"
    address = _literal(f"{spec['clusterIP']}:{ports[0]}")
    return address, f"live metrics go to {address}, Service {config.statsd_service}"


def with_statsd(plan: str, address: str) -> str:
    """The text of a plan whose engines send their metrics to ``address``, each under the name of its node."""
    import yaml

    stats = {"flush_interval": FLUSH, "prefix": PREFIX, "backend": "name", "statsd": {"address": address}}
    document = yaml.safe_load(plan)
    return yaml.safe_dump({**document, "stats": stats}, sort_keys=False, width=1000)


def _literal(text: str) -> str:
    host, _, port = text.rpartition(":")
    try:
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(port)
        ipaddress.IPv4Address(host)
    except ValueError as error:
        raise FleetError(
            f"k8s.statsd={text} must be auto, off, or an IPv4 address and port, like 10.0.0.7:8125"
        ) from error
    return text
