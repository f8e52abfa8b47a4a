"""The contract of every cluster: binding pods to nodes, and deleting them as their kubelets allow. See running.py."""

from __future__ import annotations

from tests.cluster.contract.running import contract, eventually, pod, refusal
from tests.cluster.contract.test_objects import owned_by
from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectMeta
from virt_dra.cluster.port import ApiError, Cluster, Conflict, NotFound

HOLD = "contract.example.com/hold"


async def delete_at_once(cluster: Cluster, obj: Pod) -> None:
    await cluster.delete(Pod, obj.name, obj.namespace, grace_seconds=0)


async def bound(cluster: Cluster, namespace: str, name: str, *, meta: ObjectMeta | None = None) -> Pod:
    """A pod on a node, of which a control plane knows nothing."""
    created = await cluster.create(pod(namespace, name, meta=meta))
    await cluster.bind(created, "n1")
    return await cluster.get(Pod, name, namespace)


# --- binding --------------------------------------------------------------------------------------------------------


@contract
async def test_binding_sets_node_and_condition(cluster: Cluster, namespace: str) -> None:
    """C-13.16"""
    created = await cluster.create(pod(namespace, "p"))
    await cluster.patch(
        Pod, "p", namespace,
        merge={"status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}},
        subresource="status",
    )  # fmt: skip
    await cluster.bind(created, "n1")
    stored = await cluster.get(Pod, "p", namespace)
    assert stored.spec.node_name == "n1"
    condition = next(condition for condition in stored.status.conditions if condition.type == "PodScheduled")
    assert (condition.status, condition.reason, condition.message) == ("True", None, None)
    assert condition.last_transition_time is not None
    assert stored.metadata.generation == created.metadata.generation
    await delete_at_once(cluster, stored)


@contract
async def test_a_pod_is_bound_once(cluster: Cluster, namespace: str) -> None:
    """C-13.16"""
    stored = await bound(cluster, namespace, "p")
    for node in ("n1", "n2"):
        error = await refusal(Conflict, cluster.bind(stored, node))
        assert str(error) == 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    await delete_at_once(cluster, stored)


@contract
async def test_binding_looks_at_the_uid_if_one_is_given(cluster: Cluster, namespace: str) -> None:
    """C-13.16"""
    created = await cluster.create(pod(namespace, "p"))
    other = created.with_(metadata=created.metadata.with_(uid="other"))
    error = await refusal(Conflict, cluster.bind(other, "n1"))
    assert str(error) == (
        'Operation cannot be fulfilled on pods "p": StorageError: invalid '
        f"object, Code: 4, Key: /registry/pods/{namespace}/p, "
        "ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: other, "
        f"UID in object meta: {created.metadata.uid}"
    )
    named = Pod(metadata=ObjectMeta(name="p", namespace=namespace))
    await cluster.bind(named, "n1")
    await delete_at_once(cluster, created)


@contract
async def test_a_pod_that_is_gated_or_going_is_not_bound(cluster: Cluster, namespace: str) -> None:
    """C-13.16"""
    gated = pod(namespace, "gated")
    gated = Pod.from_wire(
        {**gated.to_wire(), "spec": {**gated.to_wire()["spec"], "schedulingGates": [{"name": "example.com/wait"}]}}
    )
    error = await refusal(Conflict, cluster.bind(await cluster.create(gated), "n1"))
    assert (
        str(error)
        == 'Operation cannot be fulfilled on pods/binding "gated": pod gated has non-empty .spec.schedulingGates'
    )
    going = await cluster.create(pod(namespace, "going", meta=ObjectMeta(finalizers=(HOLD,))))
    await cluster.delete(Pod, "going", namespace)
    error = await refusal(Conflict, cluster.bind(going, "n1"))
    assert (
        str(error) == 'Operation cannot be fulfilled on pods/binding "going": pod going '
        "is being deleted, cannot be assigned to a host"
    )
    await cluster.patch(Pod, "going", namespace, merge={"metadata": {"finalizers": None}})


@contract
async def test_binding_what_is_not_there(cluster: Cluster, namespace: str) -> None:
    error = await refusal(NotFound, cluster.bind(pod(namespace, "missing"), "n1"))
    assert str(error) == 'pods "missing" not found'


@contract
async def test_binding_to_what_is_no_node(cluster: Cluster, namespace: str) -> None:
    created = await cluster.create(pod(namespace, "p"))
    error = await refusal(ApiError, cluster.bind(created, ""))
    assert (error.status, error.reason, str(error)) == (500, "", "target.name: Required value")
    error = await refusal(ApiError, cluster.bind(created, "no_node"))
    assert str(error).startswith(
        'target.name: Invalid value: "no_node": a lowercase RFC 1123 subdomain must consist of '
    )
    assert (await cluster.get(Pod, "p", namespace)).spec.node_name is None


# --- deletion -------------------------------------------------------------------------------------------------------


@contract
async def test_a_pod_without_node_goes_at_once(cluster: Cluster, namespace: str) -> None:
    """C-13.17"""
    await cluster.create(pod(namespace, "p"))
    await cluster.delete(Pod, "p", namespace)
    await refusal(NotFound, cluster.get(Pod, "p", namespace))


@contract
async def test_a_finished_pod_goes_at_once(cluster: Cluster, namespace: str) -> None:
    """C-13.17"""
    await bound(cluster, namespace, "p")
    await cluster.patch(Pod, "p", namespace, merge={"status": {"phase": "Succeeded"}}, subresource="status")
    await cluster.delete(Pod, "p", namespace, grace_seconds=100)
    await refusal(NotFound, cluster.get(Pod, "p", namespace))


@contract
async def test_a_pod_on_a_node_stays_until_its_kubelet_confirms(cluster: Cluster, namespace: str) -> None:
    """C-13.17"""
    before = await bound(cluster, namespace, "p")
    await cluster.delete(Pod, "p", namespace)
    marked = await cluster.get(Pod, "p", namespace)
    assert marked.metadata.deletion_timestamp is not None
    assert marked.metadata.deletion_grace_period_seconds == 30
    assert (before.metadata.generation, marked.metadata.generation) == (1, 2)
    await cluster.delete(Pod, "p", namespace)
    assert await cluster.get(Pod, "p", namespace) == marked
    await cluster.patch(Pod, "p", namespace, merge={"status": {"phase": "Failed"}}, subresource="status")
    await cluster.get(Pod, "p", namespace)
    await delete_at_once(cluster, marked)
    await refusal(NotFound, cluster.get(Pod, "p", namespace))


@contract
async def test_a_grace_period_can_only_be_shortened(cluster: Cluster, namespace: str) -> None:
    """C-13.17"""
    stored = await bound(cluster, namespace, "p")
    seen = []
    for grace in (600, 900, 300, -5):
        await cluster.delete(Pod, "p", namespace, grace_seconds=grace)
        seen.append((await cluster.get(Pod, "p", namespace)).metadata.deletion_grace_period_seconds)
    assert seen == [600, 600, 300, 1]
    await delete_at_once(cluster, stored)


@contract
async def test_a_finalizer_outlasts_the_grace_period(cluster: Cluster, namespace: str) -> None:
    await bound(cluster, namespace, "p", meta=ObjectMeta(finalizers=(HOLD,)))
    await cluster.delete(Pod, "p", namespace, grace_seconds=0)
    marked = await cluster.get(Pod, "p", namespace)
    assert marked.metadata.deletion_grace_period_seconds == 0
    await cluster.patch(Pod, "p", namespace, merge={"metadata": {"finalizers": None}})
    await refusal(NotFound, cluster.get(Pod, "p", namespace))


@contract
async def test_a_running_grace_period_outlasts_the_last_finalizer(cluster: Cluster, namespace: str) -> None:
    stored = await bound(cluster, namespace, "p", meta=ObjectMeta(finalizers=(HOLD,)))
    await cluster.delete(Pod, "p", namespace, grace_seconds=600)
    await cluster.patch(Pod, "p", namespace, merge={"metadata": {"finalizers": None}})
    assert (await cluster.get(Pod, "p", namespace)).metadata.deletion_timestamp is not None
    await delete_at_once(cluster, stored)


@contract
async def test_garbage_collected_pods_have_their_grace(cluster: Cluster, namespace: str) -> None:
    owner = await cluster.create(pod(namespace, "owner"))
    child = await bound(cluster, namespace, "child", meta=owned_by(owner))
    await cluster.delete(Pod, "owner", namespace)

    async def it_is_marked() -> None:
        assert (await cluster.get(Pod, "child", namespace)).metadata.deletion_grace_period_seconds == 30

    await eventually(it_is_marked)
    await delete_at_once(cluster, child)
