"""The node driver on a control plane: the objects that it needs there, and what its pod has of its service account."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Final

import yaml

from devtools.cluster.control_plane import ControlPlane

RIGHTS: Final = ("driver/namespace.yaml", "driver/rights.yaml")
"""Of the manifests."""
POLICIES: Final = "crds/node-driver/virtdranodepolicies.yaml"
_MANIFESTS: Final = Path(__file__).parents[2] / "manifests"
_ACCOUNT: Final = "/api/v1/namespaces/virt-dra-driver/serviceaccounts"


def create_of_manifests(plane: ControlPlane, *files: str) -> None:
    """Creates what manifests of the driver hold, and waits for CRDs."""
    core = {"ServiceAccount": _ACCOUNT, "Namespace": "/api/v1/namespaces"}
    for file in files:
        for document in yaml.safe_load_all((_MANIFESTS / file).read_text(encoding="utf-8")):
            path = core.get(document["kind"]) or f"/apis/{document['apiVersion']}/{document['kind'].lower()}s"
            plane.request("POST", path, document)
            if document["kind"] == "CustomResourceDefinition":
                plane.wait_until_established(document["metadata"]["name"])


def write_account(plane: ControlPlane, folder: Path) -> None:
    """The files of its service account, with a new token, as a pod has them. The folder is made."""
    folder.mkdir()
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    token = plane.request("POST", f"{_ACCOUNT}/virt-dra-driver/token", request)
    (folder / "token").write_text(token["status"]["token"])
    (cluster,) = yaml.safe_load(plane.kubeconfig.read_text(encoding="utf-8"))["clusters"]
    (folder / "ca.crt").write_bytes(base64.b64decode(cluster["cluster"]["certificate-authority-data"]))
