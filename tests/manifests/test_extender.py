"""manifests/extender: what it may do, and that its account's rights are enough."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.cluster.control_plane import ControlPlane
from virt_dra.allocator import DEFAULT
from virt_dra.api.integration.paths import PART_OF, PART_OF_LABEL
from virt_dra.cluster.kube.cluster import connect
from virt_dra.extender.advising_process import AdvisorSettings
from virt_dra.extender.configuration import scheduler_configuration
from virt_dra.extender.following import FollowedCluster
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import EXTENDER_NAMESPACE, packaged

Json = dict[str, Any]
MANIFESTS = Path(__file__).parents[2] / "manifests" / "extender"


def objects() -> dict[str, Json]:
    return {obj["kind"]: obj for obj in build(packaged(), "extender")}


def test_all_objects_are_in_its_own_namespace_with_its_label() -> None:
    assert {obj["metadata"]["labels"][PART_OF_LABEL] for obj in objects().values()} == {PART_OF}
    assert {obj["metadata"].get("namespace", EXTENDER_NAMESPACE) for obj in objects().values()} == {EXTENDER_NAMESPACE}
    assert objects()["Namespace"]["metadata"]["name"] == EXTENDER_NAMESPACE


def test_it_reads_and_nothing_else() -> None:
    assert {verb for rule in objects()["ClusterRole"]["rules"] for verb in rule["verbs"]} == {"list", "watch"}
    assert "secrets" not in {resource for rule in objects()["ClusterRole"]["rules"] for resource in rule["resources"]}
    assert objects()["ClusterRoleBinding"]["subjects"] == [
        {"kind": "ServiceAccount", "name": EXTENDER_NAMESPACE, "namespace": EXTENDER_NAMESPACE}
    ]


def test_its_container_may_do_no_more_than_use_the_nodes_network() -> None:
    spec = objects()["DaemonSet"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert spec["hostNetwork"] is True
    assert not {"hostPID", "hostIPC"} & spec.keys()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "--host=127.0.0.1" in container["args"]  # only its node's kube-scheduler can ask


def test_kube_schedulers_configuration_is_what_the_command_prints() -> None:
    assert yaml.safe_load((MANIFESTS / "scheduler-configuration.yaml").read_text()) == scheduler_configuration(
        "http://127.0.0.1:8766"
    )


@pytest.mark.control_plane
@pytest.mark.slow
async def test_its_rights_are_those_that_it_needs(caplog: pytest.LogCaptureFixture) -> None:
    """It becomes ready with this account, and with one right less it doesn't: it waits for that kind alone, which it
    may not list."""
    with ControlPlane() as plane:
        async with connect(str(plane.kubeconfig)) as admin:
            for obj in build(packaged(), "extender"):
                await admin.apply(obj, field_manager="test")
        kubeconfig = str(plane.kubeconfig_of_service_account(EXTENDER_NAMESPACE, EXTENDER_NAMESPACE))
        assert await _becomes_ready(kubeconfig)
        role = objects()["ClusterRole"]
        for rule in role["rules"]:
            for resource in rule["resources"]:
                if resource == "devicetaintrules":
                    continue  # young: a cluster may not have them
                less = [
                    {**rule, "resources": [name for name in rule["resources"] if name != resource]}
                    for rule in role["rules"]
                ]
                async with connect(str(plane.kubeconfig)) as admin:
                    await admin.apply({**role, "rules": less}, field_manager="test", force=True)
                caplog.clear()
                refused = partial(_is_logged, f'cannot list resource "{resource}"', caplog)
                ready = await _becomes_ready(kubeconfig, refused)
                assert not ready, f"the right to list and watch {resource} isn't needed"


def _is_logged(text: str, caplog: pytest.LogCaptureFixture) -> bool:
    return text in caplog.text


async def _becomes_ready(kubeconfig: str, refused: Callable[[], bool] = lambda: False) -> bool:
    """False once it has read all kinds but one, of which it was ``refused``."""
    async with connect(kubeconfig) as cluster:
        followed = FollowedCluster(cluster, AdvisorSettings("pack", DEFAULT))
        async with followed.following(), asyncio.timeout(60):
            while not followed.process.ready and not (len(followed.waiting_for) == 1 and refused()):
                await asyncio.sleep(0.05)
            return followed.process.ready
