"""Provenance: each thing that can be wrong has its own line, and then nothing is installed. helm and cosign are
stand-ins here; what the real ones say of the same cases is held where there is a registry and a Sigstore of the test.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ProvenanceError
from harness.files import read_json, write_json
from harness.fleet.kubernetes.provenance import (
    NOT_VERIFIED,
    Provenance,
    examine,
    folder_digest,
    pins,
    verified_by,
    verified_chart,
)
from tests.fleet.kubernetes.conftest import CHART, CHART_DIGEST, DRIVER, ENGINE, MakeConfig, rendered
from tests.fleet.kubernetes.standin import StandIn

TAG = "registry.test/a/engine:latest"


def failed(found: Provenance) -> dict[str, str]:
    """Name → text of the lines that do not hold."""
    return {check.name: check.seen for check in found.checks if not check.ok}


def test_a_chart_and_its_images_are_verified(signed: MakeConfig, cosign: StandIn) -> None:
    config = signed(k8s__trusted_root="root.json", k8s__plain_http=1)
    found = examine(config)
    assert failed(found) == {}
    assert [check.name for check in found.checks] == [
        "chart by digest",
        "helm",
        "chart",
        "images by digest",
        "cosign",
        f"signature of image {ENGINE}",
        f"signature of image {DRIVER}",
        "signature of the chart",
    ]
    assert found.verified == verified_by(config) == "cosign-3.1.1"
    _, *verified = cosign.calls
    assert [call[-1] for call in verified] == [ENGINE, DRIVER, f"registry.test/a/chart@{CHART_DIGEST}"]
    assert {tuple(call[:-1]) for call in verified} == {
        (
            "verify", "--certificate-identity-regexp", config.identity, "--certificate-oidc-issuer", config.issuer,
            "--trusted-root", "root.json", "--allow-http-registry",
        )
    }  # fmt: skip


def test_pins_name_everything_that_takes_part(signed: MakeConfig) -> None:
    assert pins(signed()) == {
        "chart": CHART_DIGEST,
        "cosign": "3.1.1",
        "helm": "3.17.2",
        "image registry.test/a/driver": DRIVER.partition("@")[2],
        "image registry.test/a/engine": ENGINE.partition("@")[2],
        "verified": "cosign-3.1.1",
    }


# the negative controls


def test_no_cosign(signed: MakeConfig) -> None:
    lines = failed(examine(signed(k8s__cosign="no-such-cosign")))
    assert lines == {"cosign": "no-such-cosign is not installed, and k8s.verify=require"}


@pytest.mark.parametrize(
    "said",
    [
        "GitVersion:    v2.5.0\n",
        '{"gitVersion": "v2.5.0"}',
        "GitVersion:    2.5.0\n",
    ],
)
@pytest.mark.parametrize("verify", ["auto", "require"])
def test_a_cosign_that_is_too_old(signed: MakeConfig, cosign: StandIn, said: str, verify: str) -> None:
    cosign.answer("version", out=said)
    lines = failed(examine(signed(k8s__verify=verify)))
    assert lines == {"cosign": "cosign 2.5.0 is too old to find today's signatures; install 3 or newer"}


def test_a_cosign_that_says_no_version(signed: MakeConfig, cosign: StandIn) -> None:
    cosign.answer("version", out="GitVersion: devel\n")
    lines = failed(examine(signed()))
    assert list(lines) == ["cosign"]
    assert "tells no version" in lines["cosign"]


def test_an_image_that_is_not_signed(signed: MakeConfig, cosign: StandIn) -> None:
    cosign.answer("verify", DRIVER, code=10, err="Error: no signatures found\n")
    lines = failed(examine(signed()))
    assert list(lines) == [f"signature of image {DRIVER}"]
    assert lines[f"signature of image {DRIVER}"].startswith("it is not signed, or not for this digest; nothing of it")


def test_a_chart_that_is_not_signed(signed: MakeConfig, cosign: StandIn) -> None:
    cosign.answer(
        "verify", f"{CHART.removeprefix('oci://')}@{CHART_DIGEST}", code=10, err="Error: no signatures found\n"
    )
    assert list(failed(examine(signed()))) == ["signature of the chart"]


def test_a_signature_of_another_identity(signed: MakeConfig, cosign: StandIn) -> None:
    cosign.answer(
        "verify",
        ENGINE,
        code=1,
        err="Error: none of the expected identities matched what was in the certificate, got x\n",
    )
    lines = failed(examine(signed()))
    assert list(lines) == [f"signature of image {ENGINE}"]
    assert lines[f"signature of image {ENGINE}"].startswith("it is signed, but by another identity than k8s.identity=")


def test_any_other_failure_of_a_verification_fails(signed: MakeConfig, cosign: StandIn) -> None:
    cosign.answer("verify", ENGINE, code=1, err="Error: invalid signature when validating ASN.1 encoded signature\n")
    assert failed(examine(signed()))[f"signature of image {ENGINE}"].startswith("its signature cannot be verified; ")


@pytest.mark.parametrize("verify", ["off", "auto", "require"])
def test_a_tag_instead_of_an_images_digest(signed: MakeConfig, helm: StandIn, verify: str) -> None:
    helm.answer("template", out=rendered(TAG, DRIVER))
    lines = failed(examine(signed(k8s__verify=verify)))
    assert lines == {"images by digest": f"{TAG}: a tag can be moved; give NAME@sha256:… in a values file"}


@pytest.mark.parametrize(
    "image", ["registry.test/a@sha256:12", "registry.test/a@sha512:" + "1" * 64, "", "a b@sha256:" + "1" * 64]
)
def test_what_is_no_digest_is_none(signed: MakeConfig, helm: StandIn, image: str) -> None:
    helm.answer("template", out=rendered(image, DRIVER))
    assert list(failed(examine(signed()))) == ["images by digest"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"k8s__chart": f"{CHART}:1.0.0"}, "names a tag or a digest; give k8s.chart_digest="),
        ({"k8s__chart_digest": ""}, "k8s.chart_digest= is empty, and a tag can be moved"),
    ],
)
def test_a_tag_instead_of_the_charts_digest(
    signed: MakeConfig, helm: StandIn, changed: dict[str, str], said: str
) -> None:
    lines = failed(examine(signed(**changed)))
    assert list(lines) == ["chart by digest"]
    assert said in lines["chart by digest"]
    assert helm.calls == []


def test_a_chart_that_is_not_what_its_digest_says(signed: MakeConfig, helm: StandIn) -> None:
    helm.answer("pull", code=1, err="Error: content digest sha256:0 does not match\n")
    assert failed(examine(signed())) == {"chart": "helm pull failed: Error: content digest sha256:0 does not match"}


def test_a_chart_that_was_changed_after_it_was_verified(signed: MakeConfig, helm: StandIn) -> None:
    config = signed()
    found = examine(config)
    assert found.file is not None
    assert verified_chart(config) == found.file
    found.file.write_text("another chart")
    with pytest.raises(ProvenanceError, match=r"is not the chart that was looked at .*: it was changed; nothing was"):
        verified_chart(config)
    lines = failed(examine(config))  # and looking again does not make it right
    assert list(lines) == ["chart"]
    assert "was changed since it was looked at; start a new run" in lines["chart"]
    found.file.unlink()
    with pytest.raises(ProvenanceError, match="is gone"):
        verified_chart(config)


def test_values_that_were_changed_after_they_were_verified(signed: MakeConfig, helm: StandIn) -> None:
    config = signed()
    examine(config)
    helm.answer("template", out=rendered(ENGINE, "registry.test/a/other@sha256:" + "4" * 64))
    with pytest.raises(
        ProvenanceError, match=r"the chart now renders .*/other@.* a values file was changed; nothing was"
    ):
        verified_chart(config)


def test_each_failure_is_a_line_of_its_own(signed: MakeConfig, cosign: StandIn) -> None:
    cosign.answer("verify", code=10, err="Error: no signatures found\n")
    assert list(failed(examine(signed()))) == [
        f"signature of image {ENGINE}",
        f"signature of image {DRIVER}",
        "signature of the chart",
    ]
    with pytest.raises(
        ProvenanceError, match=r"signature of image .*; signature of image .*; signature of the chart: "
    ):
        pins(signed())


@pytest.mark.parametrize(
    "changed",
    [
        {"k8s__cosign": "no-such-cosign"},
        {"k8s__chart_digest": ""},
        {"k8s__identity": ""},
        {"k8s__helm": "no-such-helm"},
    ],
)
def test_nothing_can_be_installed_after_a_failure(signed: MakeConfig, changed: dict[str, str]) -> None:
    config = signed(**changed)
    assert not examine(config).ok
    with pytest.raises(ProvenanceError, match="was not looked at yet"):
        verified_chart(config)


# modes


def test_without_cosign_auto_says_that_nothing_was_verified(signed: MakeConfig) -> None:
    config = signed(k8s__verify="auto", k8s__cosign="no-such-cosign")
    found = examine(config)
    assert found.ok
    assert found.checks[-1].seen == f"{NOT_VERIFIED}: no-such-cosign is not installed"
    assert verified_by(config) == "no"


def test_off_says_that_nothing_was_verified(signed: MakeConfig, cosign: StandIn) -> None:
    found = examine(signed(k8s__verify="off"))
    assert found.ok
    assert found.checks[-1].seen == f"{NOT_VERIFIED}: k8s.verify=off"
    assert (found.verified, cosign.calls) == ("no", [])


@pytest.mark.parametrize(("verify", "ok"), [("auto", True), ("require", False)])
def test_nobody_is_named_whose_signature_is_wanted(signed: MakeConfig, verify: str, ok: bool) -> None:
    found = examine(signed(k8s__verify=verify, k8s__identity=""))
    assert found.ok is ok
    assert found.verified == "no"
    assert "k8s.identity= and k8s.issuer= do not say whose signature is wanted" in found.checks[-1].seen


@pytest.mark.parametrize("identity", ["https://forge.test/a", "^https://forge.test/a", "https://forge.test/a$"])
def test_an_identity_that_matches_others_as_well_is_refused(signed: MakeConfig, identity: str) -> None:
    assert list(failed(examine(signed(k8s__identity=identity)))) == ["signatures"]


def test_a_folder_is_a_chart_that_nobody_signs(signed: MakeConfig, cosign: StandIn, tmp_path: Path) -> None:
    folder = tmp_path / "a-chart"
    (folder / "templates").mkdir(parents=True)
    (folder / "Chart.yaml").write_text("name: a\n")
    (folder / "templates" / "all.yaml").write_text("{}\n")
    digest = folder_digest(folder)
    required = failed(examine(signed(k8s__chart=str(folder), k8s__chart_digest="")))
    assert required == {"signature of the chart": "the chart is a folder of this machine, which nobody signs"}

    auto: dict[str, Any] = {"k8s__chart": str(folder), "k8s__verify": "auto"}
    config = signed(**auto, k8s__chart_digest=digest)
    found = examine(config)
    assert found.ok
    assert (found.digest, found.verified) == (digest, "no")
    assert found.checks[-1].seen.startswith(NOT_VERIFIED)
    assert len([call for call in cosign.calls if call[0] == "verify"]) == 4  # its images are signed all the same
    assert verified_chart(config).read_text() == "a packed folder"

    other = failed(examine(signed(**auto, k8s__chart_digest=CHART_DIGEST)))
    assert re.search(r"has sha256:\w+, not k8s\.chart_digest=", other["chart"])


def test_a_folders_digest_is_of_names_and_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        (folder / "templates").mkdir(parents=True)
        (folder / "Chart.yaml").write_text("name: a\n")
    assert folder_digest(one) == folder_digest(two)
    (two / "Chart.yaml").write_text("name: b\n")
    assert folder_digest(one) != folder_digest(two)
    (two / "Chart.yaml").write_text("name: a\n")
    (two / "Chart.yaml").rename(two / "templates" / "Chart.yaml")
    assert folder_digest(one) != folder_digest(two)


# tools and what is kept


def test_a_helm_that_is_too_old(signed: MakeConfig, helm: StandIn) -> None:
    helm.answer("version", out="v3.9.4")
    assert failed(examine(signed())) == {"helm": "helm 3.9.4 is too old; install 3.17 or newer"}


def test_no_helm(signed: MakeConfig) -> None:
    assert failed(examine(signed(k8s__helm="no-such-helm"))) == {
        "helm": "no-such-helm is not installed, or not in PATH"
    }


def test_a_chart_with_one_image_has_no_driver(signed: MakeConfig, helm: StandIn) -> None:
    helm.answer("template", out=rendered(ENGINE))
    assert "renders 1 images" in failed(examine(signed()))["images by digest"]


def test_engine_and_driver_may_be_one_image(signed: MakeConfig, helm: StandIn, cosign: StandIn) -> None:
    helm.answer("template", out=rendered(ENGINE, ENGINE))
    found = examine(signed())
    assert found.ok
    assert len([call for call in cosign.calls if call[0] == "verify"]) == 2  # it, and the chart


def test_a_chart_is_fetched_once(signed: MakeConfig, helm: StandIn) -> None:
    config = signed()
    examine(config)
    examine(config)
    assert [call[0] for call in helm.calls].count("pull") == 1
    assert read_json(config.live / "chart.json")["images"] == sorted([ENGINE, DRIVER])


@pytest.mark.parametrize("record", [[], {}, {"file": 5, "digest": "", "sha256": "", "images": [], "verified": ""}])
def test_a_record_of_another_shape_is_none(signed: MakeConfig, record: object) -> None:
    config = signed()
    examine(config)
    write_json(config.live / "chart.json", record)
    with pytest.raises(ProvenanceError, match="is not what this program writes"):
        verified_chart(config)
