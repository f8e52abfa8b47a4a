"""Every account of the manifests as a thief, verb by verb: what a real API server lets it do with each resource that it
serves, in each kind of namespace, beside cases/rights.yaml, which says why each right is needed.

What a right is good for is tried in test_thief.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from devtools.cluster.control_plane import ControlPlane
from devtools.deployed.audit_policy import Right, rights
from devtools.deployed.minimal_crds import KUBEVIRT_CRDS
from tests.manifests.acting import acting_as
from tests.manifests.live_cluster import CRDS, until
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, packaged, planned

Json = dict[str, Any]
Ask = Callable[..., tuple[int, str]]
TABLE: Mapping[str, list[Json]] = yaml.safe_load(
    (Path(__file__).parent / "cases" / "rights.yaml").read_text(encoding="utf-8")
)
SETS: Mapping[str, Callable[[], tuple[Json, ...]]] = {
    BESIDE_KUBEVIRT: lambda: planned(Choices(BESIDE_KUBEVIRT), packaged()),
    STANDALONE: lambda: planned(Choices(STANDALONE), packaged()),
    "extender": lambda: build(packaged(), "extender"),
    "report": lambda: build(packaged(), "report"),
    "driver": lambda: build(packaged(), "driver"),
    "keeper": lambda: build(packaged(), "keeper"),
}
PATHS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}
METHODS = {
    "create": "POST", "get": "GET", "list": "GET", "watch": "GET", "update": "PUT", "patch": "PATCH",
    "delete": "DELETE", "deletecollection": "DELETE",
}  # fmt: skip
OF_EVERYBODY = {
    ("create", "authentication.k8s.io", "selfsubjectreviews"),
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews"),
    ("get", "certificates.k8s.io", "clustertrustbundles"),
    ("list", "certificates.k8s.io", "clustertrustbundles"),
    ("watch", "certificates.k8s.io", "clustertrustbundles"),
}
"""What the API server's own roles give to whoever is authenticated, and to every ServiceAccount (system:basic-user,
system:cluster-trust-bundle-discovery)."""
OWN_NAMESPACES = ("virt-dra", "virt-dra-extender", "virt-dra-driver")


class Account(NamedTuple):
    namespace: str
    name: str


def test_every_right_has_its_reason_and_every_reason_a_right() -> None:
    """The table is of the rights that there are; where one is for our namespace or one object only, it says so."""
    for name, objects in SETS.items():
        given = {_row(right) for right in rights(objects())}
        assert given == set(_reasons(name)), name
        assert all(_reasons(name).values())


def _row(right: Right) -> str:
    place = f" in {right.namespace}" if right.namespace else ""
    group = f".{right.group}" if right.group else ""
    return f"{right.account} {right.verb} {right.resource}{group}{f' {right.name}' if right.name else ''}{place}"


def _reasons(name: str) -> dict[str, str]:
    """Row -> reason, of the accounts of one set of manifests."""
    return {
        f"{account} {verb} {resource}{place}": entry["why"]
        for account, entries in TABLE.items()
        for entry in entries
        if name in entry["of"]
        for verb in entry["verbs"]
        for resource in entry["resources"]
        for place in [f" in {entry['in']}" if "in" in entry else ""]
    }


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        crds = (*KUBEVIRT_CRDS, *(obj for obj in SETS[BESIDE_KUBEVIRT]() if obj["kind"] == "CustomResourceDefinition"))
        for crd in crds:
            plane.request("POST", CRDS, crd)
            plane.wait_until_established(crd["metadata"]["name"])
        for namespace in OWN_NAMESPACES:
            plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        yield plane


@pytest.fixture(scope="module", params=SETS)
def installed(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[tuple[str, dict[Account, set[Right]]]]:
    """The accounts and roles of a set of manifests: its name, and what each account is given."""
    objects = SETS[request.param]()
    there = [obj for obj in objects if obj["kind"] in PATHS]
    paths = [PATHS[obj["kind"]].format(obj["metadata"].get("namespace")) for obj in there]
    for obj, path in zip(there, paths, strict=True):
        plane.request("POST", path, obj)
    accounts = [obj["metadata"] for obj in there if obj["kind"] == "ServiceAccount"]
    given = set(rights(objects))
    yield (
        request.param,
        {
            Account(account["namespace"], account["name"]): {
                right for right in given if right.account == account["name"]
            }
            for account in accounts
        },
    )
    for obj, path in zip(there, paths, strict=True):
        plane.request("DELETE", f"{path}/{obj['metadata']['name']}")


@pytest.mark.control_plane
@pytest.mark.slow(seconds=5)
def test_the_api_server_says_of_each_account_what_the_table_says(
    plane: ControlPlane, installed: tuple[str, dict[Account, set[Right]]]
) -> None:
    """SelfSubjectRulesReview: in our namespaces, the cluster's, and one with VMs."""
    name, accounts = installed
    vms = plane.create_namespace()
    for account, given in accounts.items():
        with acting_as(plane, plane.kubeconfig_of_service_account(*account)) as ask:
            for namespace in (vms, "kube-system", "default", *OWN_NAMESPACES):
                wanted = {_row(replace(right, namespace="")) for right in given if right.namespace in ("", namespace)}
                until(partial(_agree, wanted, ask, namespace, account), f"{account} in {namespace} of {name}", 10)
    plane.delete_namespace(vms)


def _agree(wanted: set[str], ask: Ask, namespace: str, account: Account) -> bool:
    """Roles reach the authorizer a moment after they are made."""
    code, text = ask(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": namespace}}
    )
    assert code == 201, text
    status = json.loads(text)["status"]
    assert not status["incomplete"]
    allowed = {
        _row(Right(account.name, verb, group, resource, "", name))
        for rule in status["resourceRules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        if (verb, group, resource) not in OF_EVERYBODY
    }
    return allowed == wanted


class Served(NamedTuple):
    """A resource of the API server's discovery."""

    base: str
    group: str
    resource: str
    namespaced: bool
    verbs: tuple[str, ...]

    def path(self, verb: str, namespace: str, name: str) -> str:
        plural, _, subresource = self.resource.partition("/")
        place = f"{self.base}/namespaces/{namespace}/{plural}" if self.namespaced else f"{self.base}/{plural}"
        if subresource:
            return f"{place}/{name}/{subresource}"
        return place if verb in ("create", "list", "watch", "deletecollection") else f"{place}/{name}"


@pytest.mark.control_plane
@pytest.mark.slow(seconds=60)
def test_a_thief_can_do_what_the_table_says_and_nothing_else(
    plane: ControlPlane, installed: tuple[str, dict[Account, set[Right]]]
) -> None:
    """Each verb of each resource that the API server serves, tried as a dry run: in a namespace with VMs, and ours."""
    _, accounts = installed
    served = list(_served(plane))
    assert len(served) > 100
    vms = plane.create_namespace()
    for account, given in accounts.items():
        wrong = []
        with acting_as(plane, plane.kubeconfig_of_service_account(*account)) as ask:
            for resource in served:
                names = {"any"} | {right.name for right in given if right.resource == resource.resource and right.name}
                for verb in resource.verbs:
                    for namespace in (vms, "virt-dra") if resource.namespaced else ("",):
                        for name in names:
                            allowed = _is_allowed(ask, resource, verb, namespace, name)
                            if allowed is not _is_given(given, resource, verb, namespace, name):
                                wrong.append((verb, resource.resource, namespace, name, allowed))
        assert wrong == [], account
    plane.delete_namespace(vms)


def _served(plane: ControlPlane) -> Iterator[Served]:
    groups = plane.request("GET", "/apis")["groups"]
    bases = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]
    for base in bases:
        group = base.split("/")[2] if base.startswith("/apis") else ""
        for entry in plane.request("GET", base)["resources"]:
            yield Served(base, group, entry["name"], entry["namespaced"], tuple(entry["verbs"]))


def _is_allowed(ask: Ask, resource: Served, verb: str, namespace: str, name: str) -> bool:
    path = resource.path(verb, namespace, name)
    code, text = ask(METHODS[verb], f"{path}?watch=1&timeoutSeconds=60" if verb == "watch" else path, {})
    return not (code == 403 and f'cannot {verb} resource \\"{resource.resource}\\"' in text)


def _is_given(given: set[Right], resource: Served, verb: str, namespace: str, name: str) -> bool:
    if (verb, resource.group, resource.resource) in OF_EVERYBODY:
        return True
    named = verb not in ("create", "list", "watch", "deletecollection")
    return any(
        (right.verb, right.group, right.resource) == (verb, resource.group, resource.resource)
        and right.namespace in ("", namespace)
        and (not right.name or (named and right.name == name))
        for right in given
    )
