"""The contract of every cluster: what a user may do, and how what they may not is refused. See running.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.cluster.contract.running import RUN_LABEL, claim, contract, eventually, pod, refusal
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.api.meta import ObjectMeta
from virt_dra.api.policies.rbac_v1 import (
    ClusterRole,
    ClusterRoleBinding,
    PolicyRule,
    Role,
    RoleBinding,
    RoleRef,
    Subject,
)
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim
from virt_dra.cluster.kube.cluster import KubeCluster
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import ApiError, Cluster, Forbidden, Invalid, NotFound
from virt_dra.cluster.requester import NODE_NAME, Requester

DRA = "resource.k8s.io"
BOB = Requester("bob", ("developers",))


def asked_by(cluster: Cluster, requester: Requester) -> Cluster:
    assert isinstance(cluster, KubeCluster | MemoryCluster)
    return cluster.acting_as(requester)


def rule(verbs: str, group: str, resources: str, *names: str) -> PolicyRule:
    return PolicyRule(
        verbs=tuple(verbs.split()), api_groups=(group,), resources=tuple(resources.split()), resource_names=names
    )


def ref(kind: str, name: str) -> RoleRef:
    return RoleRef(api_group="rbac.authorization.k8s.io", kind=kind, name=name)


def user(name: str) -> Subject:
    return Subject(kind="User", api_group="rbac.authorization.k8s.io", name=name)


async def granted(cluster: Cluster, namespace: str, subject: Subject, *rules: PolicyRule, name: str = "r") -> None:
    """A role with a binding in the namespace, in force."""
    meta = ObjectMeta(name=name, namespace=namespace)
    await cluster.create(Role(metadata=meta, rules=rules))
    await cluster.create(RoleBinding(metadata=meta, subjects=(subject,), role_ref=ref("Role", name)))


async def granted_everywhere(cluster: Cluster, namespace: str, subject: Subject, *rules: PolicyRule) -> None:
    meta = ObjectMeta(name=f"{namespace}-everywhere", labels={RUN_LABEL: namespace})
    await cluster.create(ClusterRole(metadata=meta, rules=rules))
    await cluster.create(ClusterRoleBinding(metadata=meta, subjects=(subject,), role_ref=ref("ClusterRole", meta.name)))


async def clean_up(cluster: Cluster, namespace: str) -> None:
    for kind in (ClusterRoleBinding, ClusterRole):
        await cluster.delete(kind, f"{namespace}-everywhere")


async def allowed_soon(attempt: object) -> None:
    """Until a real authorizer has seen the new binding: ``attempt`` makes a coroutine."""

    async def it_is() -> None:
        try:
            await attempt()  # type: ignore[operator]  # a callable
        except Forbidden as error:
            raise AssertionError(str(error)) from error

    await eventually(it_is)


# --- who may ---------------------------------------------------------------------------------------------------------


@contract
async def test_nobody_may_what_no_rule_allows(cluster: Cluster, namespace: str) -> None:
    """C-13.15"""
    bob = asked_by(cluster, BOB)
    cannot = 'is forbidden: User "bob" cannot'
    group, inside = f'in API group "{DRA}"', f'in the namespace "{namespace}"'
    attempts: Sequence[tuple[object, str]] = (
        (
            bob.get(ResourceClaim, "c", namespace),
            f'resourceclaims.{DRA} "c" {cannot} get resource "resourceclaims" {group} {inside}',
        ),
        (
            bob.list(ResourceClaim, namespace),
            f'resourceclaims.{DRA} {cannot} list resource "resourceclaims" {group} {inside}',
        ),
        (
            bob.list(ResourceClaim),
            f'resourceclaims.{DRA} {cannot} list resource "resourceclaims" {group} at the cluster scope',
        ),
        (
            bob.create(claim(namespace, "c")),
            f'resourceclaims.{DRA} {cannot} create resource "resourceclaims" {group} {inside}',
        ),
        (
            bob.update(claim(namespace, "c")),
            f'resourceclaims.{DRA} "c" {cannot} update resource "resourceclaims" {group} {inside}',
        ),
        (
            bob.update_status(claim(namespace, "c")),
            f'resourceclaims.{DRA} "c" {cannot} update resource "resourceclaims/status" {group} {inside}',
        ),
        (
            bob.patch(ResourceClaim, "c", namespace, merge={}),
            f'resourceclaims.{DRA} "c" {cannot} patch resource "resourceclaims" {group} {inside}',
        ),
        (
            bob.delete(DeviceClass, "d"),
            f'deviceclasses.{DRA} "d" {cannot} delete resource "deviceclasses" {group} at the cluster scope',
        ),
        (
            bob.bind(pod(namespace, "p"), "n1"),
            f'pods "p" {cannot} create resource "pods/binding" in API group "" in the namespace "{namespace}"',
        ),
        (
            bob.get(Namespace, namespace),
            f'namespaces "{namespace}" {cannot} get resource "namespaces" in '
            f'API group "" in the namespace "{namespace}"',
        ),
    )
    for attempt, message in attempts:
        error = await refusal(Forbidden, attempt)  # type: ignore[arg-type]  # coroutines of different results
        assert str(error) == message


@contract
async def test_a_role_allows_what_its_rules_say(cluster: Cluster, namespace: str) -> None:
    await granted(
        cluster,
        namespace,
        user("bob"),
        rule("get create", DRA, "resourceclaims"),
        rule("delete", DRA, "resourceclaims", "mine"),
    )
    bob = asked_by(cluster, BOB)
    await allowed_soon(lambda: bob.create(claim(namespace, "mine")))
    assert (await bob.get(ResourceClaim, "mine", namespace)).name == "mine"
    await refusal(Forbidden, bob.list(ResourceClaim, namespace))
    await refusal(Forbidden, bob.patch(ResourceClaim, "mine", namespace, merge={}, subresource="status"))
    await refusal(Forbidden, bob.delete(ResourceClaim, "other", namespace))
    await refusal(Forbidden, bob.get(ResourceClaim, "mine", "default"))
    await bob.delete(ResourceClaim, "mine", namespace)
    await refusal(NotFound, bob.get(ResourceClaim, "mine", namespace))


@contract
async def test_a_cluster_role_counts_where_it_is_bound(cluster: Cluster, namespace: str) -> None:
    await granted_everywhere(
        cluster, namespace, Subject(kind="Group", name=f"{namespace}-team"), rule("*", "*", "*/status pods")
    )
    meta = ObjectMeta(name="local", namespace=namespace)
    await cluster.create(
        RoleBinding(metadata=meta, subjects=(user("eve"),), role_ref=ref("ClusterRole", f"{namespace}-everywhere"))
    )
    await cluster.create(claim(namespace, "c"))
    member, eve = asked_by(cluster, Requester("ann", (f"{namespace}-team",))), asked_by(cluster, Requester("eve"))
    await allowed_soon(lambda: member.patch(ResourceClaim, "c", namespace, merge={}, subresource="status"))
    await member.list(Pod)
    await refusal(Forbidden, member.get(ResourceClaim, "c", namespace))
    await allowed_soon(lambda: eve.list(Pod, namespace))
    await refusal(Forbidden, eve.list(Pod))
    await clean_up(cluster, namespace)


@contract
async def test_a_service_account_is_meant_by_namespace_and_name(cluster: Cluster, namespace: str) -> None:
    account = Subject(kind="ServiceAccount", name="driver", namespace=namespace)
    await granted(cluster, namespace, account, rule("list", DRA, "resourceclaims"))
    driver = asked_by(cluster, Requester(f"system:serviceaccount:{namespace}:driver"))
    await allowed_soon(lambda: driver.list(ResourceClaim, namespace))
    other = asked_by(cluster, Requester("system:serviceaccount:default:driver"))
    await refusal(Forbidden, other.list(ResourceClaim, namespace))


@contract
async def test_a_group_of_service_accounts_is_a_group(cluster: Cluster, namespace: str) -> None:
    group = Subject(kind="Group", api_group="rbac.authorization.k8s.io", name=f"system:serviceaccounts:{namespace}")
    await granted(cluster, namespace, group, rule("list", DRA, "resourceclaims"))
    driver = asked_by(cluster, Requester(f"system:serviceaccount:{namespace}:any"))
    await allowed_soon(lambda: driver.list(ResourceClaim, namespace))


@contract
async def test_masters_may_everything(cluster: Cluster, namespace: str) -> None:
    master = asked_by(cluster, Requester("root", ("system:masters",)))
    await master.create(claim(namespace, "c"))


@contract
async def test_a_binding_to_no_role_is_told(cluster: Cluster, namespace: str) -> None:
    """C-13.15"""
    meta = ObjectMeta(name="b", namespace=namespace)
    await cluster.create(RoleBinding(metadata=meta, subjects=(user("zoe"),), role_ref=ref("Role", "missing")))
    zoe = asked_by(cluster, Requester("zoe"))

    async def it_is_told() -> None:
        error = await refusal(Forbidden, zoe.list(ResourceClaim, namespace))
        assert str(error) == (
            f'resourceclaims.{DRA} is forbidden: User "zoe" cannot list resource "resourceclaims" in API group "{DRA}" '
            f'in the namespace "{namespace}": rbac: RBAC: role.rbac.authorization.k8s.io "missing" not found'
        )

    await eventually(it_is_told)


# --- a claim's status ------------------------------------------------------------------------------------------------

ALLOCATION: Mapping[str, object] = {
    "devices": {"results": [{"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}]},
    "nodeSelector": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    },
}
DEVICES = [{"driver": "gpu.example.com", "pool": "a", "device": "gpu-0", "data": {"a": 1}}]


async def driver_refusal(asker: Cluster, namespace: str, status: Mapping[str, object]) -> ApiError:
    return await refusal(
        Invalid, asker.patch(ResourceClaim, "c", namespace, merge={"status": status}, subresource="status")
    )


@contract
async def test_allocating_needs_the_right_to_bind(cluster: Cluster, namespace: str) -> None:
    """C-13.6: cluster-wide, besides the right to write the status."""
    await granted(cluster, namespace, user("bob"), rule("*", DRA, "resourceclaims/status resourceclaims/binding"))
    await cluster.create(claim(namespace, "c"))
    bob = asked_by(cluster, BOB)
    await allowed_soon(lambda: bob.patch(ResourceClaim, "c", namespace, merge={}, subresource="status"))
    error = await driver_refusal(bob, namespace, {"allocation": ALLOCATION})
    assert str(error) == (
        f'ResourceClaim.{DRA} "c" is invalid: status.allocation: Forbidden: changing '
        "status.allocation or status.reservedFor requires "
        'resource="resourceclaims/binding", verb="patch" permission: '
        f'resourceclaims.{DRA} is forbidden: User "bob" cannot patch '
        f'resource "resourceclaims/binding" in API group "{DRA}" at the cluster scope'
    )
    await granted_everywhere(cluster, namespace, user("bob"), rule("patch", DRA, "resourceclaims/binding"))

    async def it_may() -> None:
        try:
            await bob.patch(
                ResourceClaim, "c", namespace, merge={"status": {"allocation": ALLOCATION}}, subresource="status"
            )
        except Invalid as refused:
            raise AssertionError(str(refused)) from refused

    await eventually(it_may)
    await clean_up(cluster, namespace)


@contract
async def test_a_driver_reports_on_its_own_devices(cluster: Cluster, namespace: str) -> None:
    """C-13.6: with a verb that says whether it does so on the claim's node only."""
    account = Subject(kind="ServiceAccount", name="driver", namespace=namespace)
    rules = (
        rule("*", DRA, "resourceclaims/status"),
        rule("associated-node:patch", DRA, "resourceclaims/driver", "gpu.example.com"),
    )
    await granted(cluster, namespace, account, *rules)
    await cluster.create(claim(namespace, "c"))
    await cluster.patch(
        ResourceClaim, "c", namespace, merge={"status": {"allocation": ALLOCATION}}, subresource="status"
    )
    name = f"system:serviceaccount:{namespace}:driver"
    here, there = (asked_by(cluster, Requester(name, extra={NODE_NAME: (node,)})) for node in ("n1", "n2"))
    await allowed_soon(lambda: here.patch(ResourceClaim, "c", namespace, merge={}, subresource="status"))
    error = await driver_refusal(there, namespace, {"devices": DEVICES})
    assert str(error) == (
        f'ResourceClaim.{DRA} "c" is invalid: status.devices: Forbidden: changing status.devices requires '
        'resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission: '
        f'resourceclaims.{DRA} "gpu.example.com" is forbidden: '
        f'User "{name}" cannot arbitrary-node:patch resource "resourceclaims/driver" in API group "{DRA}" '
        f'in the namespace "{namespace}"'
    )
    await here.patch(ResourceClaim, "c", namespace, merge={"status": {"devices": DEVICES}}, subresource="status")
    await cluster.delete(RoleBinding, "r", namespace)
    await granted(cluster, namespace, account, rule("*", DRA, "resourceclaims/status"), name="less")

    async def it_may_no_more() -> None:
        # An attempt that still succeeds leaves no devices, and to leave none again would be no change.
        await cluster.patch(ResourceClaim, "c", namespace, merge={"status": {"devices": DEVICES}}, subresource="status")
        refused = await driver_refusal(here, namespace, {"devices": []})
        assert 'verb="[associated-node:patch arbitrary-node:patch]" permission: ' in str(refused)
        assert "cannot associated-node:patch resource" in str(refused)

    await eventually(it_may_no_more)
