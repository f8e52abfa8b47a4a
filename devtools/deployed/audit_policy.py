"""What the components really asked of an API server, from its audit log, beside what the manifests allow them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

POLICY: Json = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],  # a watch that goes on has only begun its answer
    "rules": [
        {"level": "Metadata", "userGroups": ["system:serviceaccounts:virt-dra"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, order=True)
class Right:
    """``resource`` with its subresource; ``name``: "" where the right or request is for no certain object."""

    account: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        place = f" in {self.namespace}" if self.namespace else ""
        return f"{self.account}: {self.verb} {kind}{f' {self.name}' if self.name else ''}{place}"


def rights(objects: Iterable[Json]) -> Iterator[Right]:
    """Everything that the roles in a set of manifests allow their ServiceAccounts, right by right."""
    everything = list(objects)
    roles = {
        (obj["kind"], obj["metadata"]["name"]): obj for obj in everything if obj["kind"] in ("Role", "ClusterRole")
    }
    for binding in everything:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        for subject in binding["subjects"]:
            for rule in role["rules"]:
                for verb in rule["verbs"]:
                    for group in rule["apiGroups"]:
                        for resource in rule["resources"]:
                            for name in rule.get("resourceNames", [""]):
                                yield Right(
                                    subject["name"],
                                    verb,
                                    group,
                                    resource,
                                    binding["metadata"].get("namespace", ""),
                                    name,
                                )


@dataclass(frozen=True)
class Asked:
    right: Right
    code: int


def asked(log: Path, length: int | None = None) -> Iterator[Asked]:
    """What accounts in the namespace virt-dra asked for, but for discovery. ``length``: of the log, from its beginning;
    None: all of it."""
    for line in log.read_bytes()[:length].decode().splitlines():
        event = json.loads(line)
        reference = event.get("objectRef")
        if reference is None or "resource" not in reference:
            continue
        resource = reference["resource"] + (f"/{reference['subresource']}" if reference.get("subresource") else "")
        account = event["user"]["username"].removeprefix("system:serviceaccount:virt-dra:")
        right = Right(
            account,
            event["verb"],
            reference.get("apiGroup", ""),
            resource,
            reference.get("namespace", ""),
            reference.get("name", ""),
        )
        yield Asked(right, (event.get("responseStatus") or {}).get("code", 0))


def used(right: Right, requests: Iterable[Right]) -> bool:
    """Whether a request needed the right."""
    return any(
        (request.account, request.verb, request.group, request.resource)
        == (right.account, right.verb, right.group, right.resource)
        and right.namespace in ("", request.namespace)
        and right.name in ("", request.name)
        for request in requests
    )
