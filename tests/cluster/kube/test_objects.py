"""Objects of any kind as JSON, on a real control plane: what installing and checking need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from devtools.cluster.control_plane import ControlPlane
from virt_dra.cluster.kube.cluster import KubeCluster, connect
from virt_dra.cluster.kube.limits import ClientLimits
from virt_dra.cluster.port import ApiError, BadRequest, Conflict, Forbidden, NotFound

pytestmark = pytest.mark.control_plane


async def asked(plane: ControlPlane, test: Callable[[KubeCluster], Awaitable[None]], user: Path | None = None) -> None:
    async with connect(str(user or plane.kubeconfig), limits=ClientLimits(qps=0, page=2)) as cluster:
        await test(cluster)


def config_map(namespace: str, name: str = "c", **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


async def test_apply_owns_fields_and_leaves_others_alone(control_plane: ControlPlane, namespace: str) -> None:
    async def test(cluster: KubeCluster) -> None:
        await cluster.apply(config_map(namespace, a="1", b="1"), field_manager="one")
        with pytest.raises(Conflict, match=r'conflict with "one": \.data\.a'):
            await cluster.apply(config_map(namespace, a="2"), field_manager="two")
        forced = await cluster.apply(config_map(namespace, a="2"), field_manager="two", force=True)
        assert forced["data"] == {"a": "2", "b": "1"}
        withdrawn = await cluster.apply(config_map(namespace, a="2"), field_manager="one")
        assert withdrawn["data"] == {"a": "2"}

    await asked(control_plane, test)


async def test_a_dry_run_stores_nothing(control_plane: ControlPlane, namespace: str) -> None:
    async def test(cluster: KubeCluster) -> None:
        shown = await cluster.apply(config_map(namespace, a="1"), field_manager="one", dry_run=True)
        assert shown["metadata"]["uid"]
        assert (await cluster.create_raw(config_map(namespace), dry_run=True))["metadata"]["uid"]
        with pytest.raises(NotFound):
            await cluster.get_raw("v1", "ConfigMap", "c", namespace)
        await cluster.create_raw(config_map(namespace, a="1"))
        await cluster.patch_raw("v1", "ConfigMap", "c", namespace, merge={"data": {"a": "2"}}, dry_run=True)
        await cluster.delete_raw("v1", "ConfigMap", "c", namespace, dry_run=True)
        assert (await cluster.get_raw("v1", "ConfigMap", "c", namespace))["data"] == {"a": "1"}

    await asked(control_plane, test)


async def test_create_update_patch_list_and_delete(control_plane: ControlPlane, namespace: str) -> None:
    async def test(cluster: KubeCluster) -> None:
        for name in "abc":
            await cluster.create_raw(config_map(namespace, name, x="1"))
        listed = await cluster.list_raw("v1", "ConfigMap", namespace)
        assert [(raw["apiVersion"], raw["kind"], raw["metadata"]["name"]) for raw in listed] == [
            ("v1", "ConfigMap", name) for name in "abc"
        ]
        assert [
            raw["metadata"]["name"] for raw in await cluster.list_raw("v1", "ConfigMap", fields="metadata.name=b")
        ] == ["b"]
        updated = await cluster.update_raw({**listed[0], "data": {"x": "2"}})
        assert updated["data"] == {"x": "2"}
        with pytest.raises(Conflict):
            await cluster.update_raw({**listed[0], "data": {"x": "3"}})
        for patch in (
            {"merge": {"data": {"y": "1"}}},
            {"operations": [{"op": "add", "path": "/data/z", "value": "1"}]},
            {"strategic": {"data": {"x": None}}},
        ):
            patched = await cluster.patch_raw("v1", "ConfigMap", "a", namespace, **patch)
        assert patched["data"] == {"y": "1", "z": "1"}
        with pytest.raises(BadRequest, match="exactly one of merge, operations and strategic"):
            await cluster.patch_raw("v1", "ConfigMap", "a", namespace)
        with pytest.raises(Conflict):
            await cluster.delete_raw("v1", "ConfigMap", "a", namespace, uid="another")
        await cluster.delete_raw("v1", "ConfigMap", "a", namespace, uid=updated["metadata"]["uid"])
        assert [raw["metadata"]["name"] for raw in await cluster.list_raw("v1", "ConfigMap", namespace)] == ["b", "c"]

    await asked(control_plane, test)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ({}, "an object must say its apiVersion and kind"),
        ({"apiVersion": "v1", "kind": 7}, "an object must say its apiVersion and kind"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "ConfigMap: metadata.name is required and must be a string"),
        (
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 7}},
            "ConfigMap: metadata.name is required and must be a string",
        ),
    ],
)
async def test_objects_that_do_not_say_what_they_are(
    control_plane: ControlPlane, raw: dict[str, Any], message: str
) -> None:
    async def test(cluster: KubeCluster) -> None:
        with pytest.raises(BadRequest) as caught:
            await cluster.apply(raw, field_manager="one")
        assert str(caught.value) == message

    await asked(control_plane, test)


async def test_fields_that_the_server_does_not_know_are_refused(control_plane: ControlPlane, namespace: str) -> None:
    async def test(cluster: KubeCluster) -> None:
        with pytest.raises(ApiError, match=r"\.novel: field not declared in schema"):
            await cluster.apply({**config_map(namespace), "novel": 1}, field_manager="one")

    await asked(control_plane, test)


async def test_a_new_kind_is_found_as_soon_as_it_is_served(control_plane: ControlPlane, namespace: str) -> None:
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "oxen.raw.example.com"},
        "spec": {
            "group": "raw.example.com",
            "scope": "Cluster",
            "names": {"kind": "Ox", "plural": "oxen"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                }
            ],
        },
    }

    async def test(cluster: KubeCluster) -> None:
        with pytest.raises(NotFound, match=r"^the server doesn't serve Ox of raw\.example\.com/v1"):
            await cluster.served_kind("raw.example.com/v1", "Ox")
        await cluster.apply(definition, field_manager="one")
        try:
            async with asyncio.timeout(20):
                while not await cluster.kinds_of("raw.example.com/v1"):
                    await asyncio.sleep(0.05)
                ox = {"apiVersion": "raw.example.com/v1", "kind": "Ox", "metadata": {"name": "a"}, "spec": {"horns": 2}}
                while True:
                    try:
                        await cluster.apply(ox, field_manager="one")
                        break
                    except NotFound:
                        await asyncio.sleep(0.05)  # discovery knows it a moment before it is served
            served = await cluster.served_kind("raw.example.com/v1", "Ox")
            assert (served.plural, served.namespaced, served.subresources) == ("oxen", False, ("status",))
            status = await cluster.patch_raw(
                "raw.example.com/v1", "Ox", "a", merge={"status": {"fed": True}}, subresource="status"
            )
            assert (status["spec"], status["status"]) == ({"horns": 2}, {"fed": True})
            assert "raw.example.com/v1" in await cluster.api_versions()
        finally:
            await cluster.delete_raw("apiextensions.k8s.io/v1", "CustomResourceDefinition", "oxen.raw.example.com")

    await asked(control_plane, test)


async def test_what_the_server_says_of_itself(control_plane: ControlPlane) -> None:
    async def test(cluster: KubeCluster) -> None:
        assert (await cluster.server_version())["gitVersion"] == "v1.37.1"
        assert {"v1", "apps/v1", "resource.k8s.io/v1"} <= set(await cluster.api_versions())
        kinds = {kind.kind: kind for kind in await cluster.kinds_of("resource.k8s.io/v1")}
        assert (kinds["ResourceClaim"].namespaced, kinds["ResourceSlice"].namespaced) == (True, False)
        assert await cluster.kinds_of("absent.example.com/v1") == ()
        assert 'kubernetes_feature_enabled{name="DynamicResourceAllocation"' in await cluster.metrics_text()

    await asked(control_plane, test)


async def test_what_we_may_not_do_is_forbidden(control_plane: ControlPlane, namespace: str) -> None:
    async def nobody(cluster: KubeCluster) -> None:
        with pytest.raises(
            Forbidden, match=r'^configmaps is forbidden: User "nobody" cannot list resource "configmaps"'
        ):
            await cluster.list_raw("v1", "ConfigMap", namespace)

    await asked(control_plane, nobody, control_plane.kubeconfig_of_user("nobody"))


async def test_other_certificates_are_taken_up_without_a_new_client(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    async def who(cluster: KubeCluster) -> str:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        return str((await cluster.create_raw(review))["status"]["userInfo"]["username"])

    path = tmp_path / "kubeconfig"
    first, second = (Path(control_plane.kubeconfig_of_user(name, ("system:masters",))) for name in ("first", "second"))
    path.write_text(first.read_text())
    async with connect(str(path)) as cluster:
        assert await who(cluster) == "first"
        path.write_text(second.read_text())
        assert await cluster.transport.connections.access.renewed()
        assert await who(cluster) == "second"
