"""The reader: a file comes whole through the log of a pod, or not at all; its shell script is run for real."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import FleetError
from harness.fleet.kubernetes.config import REPORT_FOLDER
from harness.fleet.kubernetes.reader import Reader, free_name, parse_part, reader_of
from tests.fleet.kubernetes.conftest import MakeConfig
from tests.fleet.kubernetes.mock_cluster import MockApi, make_engines


@pytest.fixture
def api(tmp_path: Path, make_config: MakeConfig) -> MockApi:
    (tmp_path / "volume").mkdir()
    return MockApi(make_config(), tmp_path / "volume")


def reader(api: MockApi, part_bytes: int = 1000) -> Reader:
    return Reader(api, api.config, "image", mount=REPORT_FOLDER, part_bytes=part_bytes, poll_s=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 1, 999, 1000, 1001, 3500])
@pytest.mark.parametrize("last", [b"", b"\n", b"\n\n"])
def test_a_file_comes_byte_for_byte_in_parts(api: MockApi, size: int, last: bytes) -> None:
    content = os.urandom(size) + last
    (api.volume / "run.json").write_bytes(content)
    assert reader(api).read(f"{REPORT_FOLDER}/run.json") == content
    assert not [key for key in api.objects if key[0] == "Pod"]


def test_a_name_with_blanks_and_quotes_is_one_file(api: MockApi) -> None:
    (api.volume / "a 'b\" $c.json").write_bytes(b"whole")
    assert reader(api).read(f"{REPORT_FOLDER}/a 'b\" $c.json") == b"whole"


def test_a_file_that_is_not_there_is_told_from_one_that_cannot_be_read(api: MockApi) -> None:
    assert reader(api).read(f"{REPORT_FOLDER}/none.json") is None
    (api.volume / "folder.json").mkdir()
    with pytest.raises(FleetError, match=r"folder\.json was not read: the reader pod is Failed"):
        reader(api).read(f"{REPORT_FOLDER}/folder.json")


def test_a_log_without_its_beginning_is_no_file(api: MockApi) -> None:
    (api.volume / "run.json").write_bytes(b"x" * 500)
    api.cut_reader_log = True
    with pytest.raises(FleetError, match="incomplete"):
        reader(api).read(f"{REPORT_FOLDER}/run.json")


@pytest.mark.parametrize("log", [b"", b"half a file", b"x\nHARNESS-READ 1 0 short\n", b"x\nHARNESS-READ 1 0\n"])
def test_a_log_without_its_end_is_no_file(log: bytes) -> None:
    with pytest.raises(FleetError, match="has no end"):
        parse_part(log, "run.json", 0)


def test_the_pod_has_no_rights_and_writes_nothing(api: MockApi) -> None:
    pod = reader(api)._pod("/var/run/sortie/run.json", 0)
    spec = pod["spec"]
    container = spec["containers"][0]
    assert (spec["automountServiceAccountToken"], spec["restartPolicy"]) == (False, "Never")
    assert spec["securityContext"]["runAsNonRoot"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert container["volumeMounts"] == [{"name": "report", "mountPath": REPORT_FOLDER, "readOnly": True}]
    assert spec["volumes"] == [
        {"name": "report", "persistentVolumeClaim": {"claimName": "soak-report", "readOnly": True}}
    ]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_pod_that_an_earlier_read_left_is_freed_and_one_that_is_stuck_is_said(api: MockApi) -> None:
    (api.volume / "run.json").write_bytes(b"whole")
    api.put("Pod", "load", {"metadata": {"name": "soak-report-reader"}})
    assert reader(api).read(f"{REPORT_FOLDER}/run.json") == b"whole"
    api.put("Pod", "load", {"metadata": {"name": "soak-report-reader"}})
    api.stuck.add("soak-report-reader")
    with pytest.raises(FleetError, match="stuck"):
        free_name(api.config, api)  # type: ignore[arg-type]


def test_its_image_is_the_engines_unless_one_is_named(api: MockApi, make_config: MakeConfig) -> None:
    make_engines(api)
    assert reader_of(api.config, api)()._image == "made/engine@sha256:1"  # type: ignore[arg-type]
    named = make_config(k8s__reader_image="busybox@sha256:2")
    assert reader_of(named, api)()._image == "busybox@sha256:2"  # type: ignore[arg-type]
    sortie = make_config(k8s__engine="sortie", k8s__chart="oci://registry.test/sortie")
    with pytest.raises(FleetError, match=r"k8s\.reader_image= is empty"):
        reader_of(sortie, api)()  # type: ignore[arg-type]
