"""The chart on a real API server: installed, upgraded, rolled back and removed by Helm."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.chart.files import CHART
from devtools.cluster.control_plane import ControlPlane, require
from devtools.go_tools import go_tool

pytestmark = [pytest.mark.control_plane, pytest.mark.go, pytest.mark.slow(seconds=10)]

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/virt-dra"
SECRET = "/api/v1/namespaces/virt-dra/secrets/virt-dra-webhook-tls"
DEPLOYMENTS = "/apis/apps/v1/namespaces/virt-dra/deployments"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VM = "virtualmachines.kubevirt.io"


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """One of its own: Helm doesn't take over CRDs that other tests have left."""
    require()
    with ControlPlane(arguments=("--allow-privileged",)) as running:  # the driver's pods are
        yield running


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A chart as of an older version: with an object that this one doesn't have, a CRD with fewer columns, and without
    the driver."""
    chart = tmp_path / "virt-dra"
    shutil.copytree(CHART, chart)
    (chart / "templates" / "old.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: virt-dra-old, namespace: virt-dra}\n"
    )
    (path,) = (chart / "templates" / "crds").glob("virtualmachines-*.yaml")
    head, columns, tail = path.read_text().partition("    additionalPrinterColumns:\n")
    first_of_schema = tail.index("    schema:\n")
    assert columns
    path.write_text(f"{head}{tail[first_of_schema:]}")
    # Nor did it know the driver.
    shutil.rmtree(chart / "templates" / "driver")
    values = yaml.safe_load((chart / "values.yaml").read_text())
    del values["driver"]
    (chart / "values.yaml").write_text(yaml.safe_dump(values))
    schema = json.loads((chart / "values.schema.json").read_text())
    del schema["properties"]["driver"]
    (chart / "values.schema.json").write_text(json.dumps(schema))
    return chart


def test_a_release_is_upgraded_rolled_back_and_removed_and_keeps_what_others_wrote(
    plane: ControlPlane, older: Path
) -> None:
    def helm(*arguments: str) -> None:
        answer = subprocess.run(
            [go_tool("helm", "helm"), *arguments, "--kubeconfig", plane.kubeconfig],
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr

    def names(path: str) -> set[str]:
        """Of those that nobody has deleted: a namespace is emptied by a controller that isn't here."""
        metadata = [item["metadata"] for item in plane.request("GET", path)["items"]]
        return {entry["name"] for entry in metadata if "deletionTimestamp" not in entry}

    def state() -> dict[str, Any]:
        webhooks = plane.request("GET", CONFIGURATION)["webhooks"]
        (version,) = plane.request("GET", f"{CRDS}/{VM}")["spec"]["versions"]
        return {
            "authorities": {webhook["clientConfig"].get("caBundle") for webhook in webhooks},
            "secret": plane.request("GET", SECRET).get("data"),
            "replicas": plane.request("GET", f"{DEPLOYMENTS}/virt-dra-operator")["spec"]["replicas"],
            "columns": len(version.get("additionalPrinterColumns", ())) > 1,
            "old": "virt-dra-old" in names("/api/v1/namespaces/virt-dra/configmaps"),
            "driver": "virt-dra-driver" in names("/api/v1/namespaces"),
        }

    helm("install", "virt-dra", str(older), "--set", "overlay=standalone")
    written = {"authorities": {"QUFBQQ=="}, "secret": {"tls.crt": "QUFBQQ=="}}
    # As virt-dra-certificates does.
    count = len(plane.request("GET", CONFIGURATION)["webhooks"])
    bundles = [{"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": "QUFBQQ=="} for i in range(count)]
    plane.request("PATCH", CONFIGURATION, bundles, content="application/json-patch+json")
    plane.merge(SECRET, {"data": written["secret"]})
    before = {**written, "replicas": 2, "columns": False, "old": True, "driver": False}
    assert state() == before

    helm(
        "upgrade",
        "virt-dra",
        str(CHART),
        "--reset-then-reuse-values",
        "--set",
        "operator.replicas=3,driver.enabled=true",
    )
    assert state() == {**written, "replicas": 3, "columns": True, "old": False, "driver": True}

    helm("rollback", "virt-dra", "1")
    assert state() == before

    helm("uninstall", "virt-dra")
    assert names(CRDS) == {VM, "virtualmachineinstances.kubevirt.io"}
    left = names("/apis/rbac.authorization.k8s.io/v1/clusterroles") | names("/api/v1/namespaces")
    assert {name for name in left if "virt-dra" in name} == set()
