"""The storage of the test cluster: a folder for each claim, reached by every node, owned by the pod's ``fsGroup``.

``python -m tests.cluster.volumes KUBECONFIG FOLDER``. Volumes are of kind ``local``, which unlike ``hostPath`` is given
to the pod's group; a volume whose claim is deleted goes with its folder.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

from tests.cluster.api import Api, ApiError

CLASS = "folders"
PROVISIONER = "harness.test/folder"
STORAGE_CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": PROVISIONER,
    "reclaimPolicy": "Delete",
}
AGAIN_S = 1.0


def volume(claim: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The volume of a claim."""
    meta, spec = claim["metadata"], claim["spec"]
    linux = {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}  # every node
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": folder.name, "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER}},
        "spec": {
            "capacity": spec["resources"]["requests"],
            "accessModes": spec["accessModes"],
            "storageClassName": CLASS,
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{key: meta[key] for key in ("name", "namespace", "uid")},
            },
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [linux]}]}},
        },
    }


def provide(api: Api, folder: Path) -> None:
    """One look: make what is asked for, remove what is released. Raises ApiError and OSError."""
    for claim in api.get("/api/v1/persistentvolumeclaims")["items"]:
        if claim["spec"].get("storageClassName") == CLASS and not claim["spec"].get("volumeName"):
            place = folder / f"pvc-{claim['metadata']['uid']}"
            place.mkdir(parents=True, exist_ok=True)
            api.make(volume(claim, place))
    for made in api.get("/api/v1/persistentvolumes")["items"]:
        if made["spec"].get("storageClassName") == CLASS and made["status"].get("phase") in ("Released", "Failed"):
            api.call("DELETE", f"/api/v1/persistentvolumes/{made['metadata']['name']}")
            shutil.rmtree(made["spec"]["local"]["path"], ignore_errors=True)


def main() -> int:
    """Look every second until killed."""
    api, folder = Api.of(Path(sys.argv[1])), Path(sys.argv[2])
    while True:
        try:
            api.make(STORAGE_CLASS)
            while True:
                provide(api, folder)
                time.sleep(AGAIN_S)
        except (ApiError, OSError) as error:
            print(f"looks again: {error}", flush=True)
            time.sleep(AGAIN_S)


if __name__ == "__main__":
    sys.exit(main())
