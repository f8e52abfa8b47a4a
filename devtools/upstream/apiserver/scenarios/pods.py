"""Claims in Pods."""

from __future__ import annotations

from collections.abc import Iterator

from devtools.upstream.apiserver.scenarios.building import (
    Json,
    Scenario,
    create,
    get,
    merged,
    operations,
    patch,
    pod,
    update,
)
from devtools.upstream.apiserver.scenarios.tables import NAMES

MAPPING = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
EXTENDED: dict[str, Json] = {
    "fine": {"resourceClaimName": "x", "requestMappings": [MAPPING]},
    "none": {"resourceClaimName": "x"},
    "no-claim": {"requestMappings": [MAPPING]},
    "bad-claim": {"resourceClaimName": "X_", "requestMappings": [MAPPING]},
    "container": {"resourceClaimName": "x", "requestMappings": [{**MAPPING, "containerName": "z"}]},
    "other-container": {"resourceClaimName": "x", "requestMappings": [{**MAPPING, "containerName": "d"}]},
    "resource": {"resourceClaimName": "x", "requestMappings": [{**MAPPING, "resourceName": "example.com/z"}]},
    "request": {"resourceClaimName": "x", "requestMappings": [{**MAPPING, "requestName": "R/s"}]},
    "twice": {"resourceClaimName": "x", "requestMappings": [MAPPING, MAPPING, {**MAPPING, "requestName": "s"}]},
    "empty": {"requestMappings": [{}]},
}
NODE_RESOURCES: dict[str, list[Json]] = {
    "fine": [{"resourceClaimName": "x", "containers": ["c"], "mapping": [{"name": "cpu", "quantity": "1"}]}],
    "generated": [{"resourceClaimName": "made", "overhead": [{"name": "memory", "perPod": "1", "perContainer": "0"}]}],
    "unknown": [{"resourceClaimName": "z"}],
    "resource": [
        {"resourceClaimName": "x", "mapping": [{"name": "gpu<", "quantity": "-1"}], "overhead": [{"name": "disk"}]}
    ],
    "negative": [
        {"resourceClaimName": "x", "overhead": [{"name": "hugepages-2Mi", "perPod": "-1", "perContainer": "-1m"}]}
    ],
}


def pods() -> Iterator[Scenario]:
    def one(name: str, body: Json) -> Scenario:
        return f"pod/{name}", [create(body)]

    entry = {"name": "a", "resourceClaimName": "x"}
    made = {"name": "b", "resourceClaimTemplateName": "t"}
    entries: dict[str, list[Json]] = {
        "fine": [entry, made],
        "none": [{"name": "a"}],
        "both": [{"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "t"}],
        "empty": [{}],
        "twice": [entry, entry],
        "same-object": [entry, {**entry, "name": "z"}],
        "empty-source": [{"name": "a", "resourceClaimName": ""}],
        "empty-template": [{"name": "a", "resourceClaimTemplateName": ""}],
        "bad-source": [{"name": "a", "resourceClaimName": "X_"}],
        "bad-template": [{"name": "a", "resourceClaimTemplateName": "X_"}],
        "twice-bad": [{"name": "A"}, {"name": "A"}],
        "empty-twice": [{**entry, "name": ""}, {**entry, "name": ""}],
    }
    for key, claims_ in entries.items():
        yield one(f"entries/{key}", pod(claims_))
    for key, name in NAMES.items():
        yield one(f"entry-name/{key}", pod([{"name": name, "resourceClaimName": "x"}]))
        yield one(f"template-entry-name/{key}", pod([{"name": name, "resourceClaimTemplateName": "x"}]))
        yield one(f"request/{key}", pod([entry], [{"name": "a", "request": name}]))
        yield one(f"use-name/{key}", pod([entry], [{"name": name}]))
    yield one(
        "mirror",
        merged(
            pod([entry, made]),
            {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}, "spec": {"nodeName": "n"}},
        ),
    )
    yield one("long-generated", pod([{"name": "a" * 63, "resourceClaimTemplateName": "x"}], name="p" * 200))
    uses: dict[str, list[Json]] = {
        "fine": [{"name": "a"}, {"name": "b"}],
        "requests": [{"name": "a", "request": "r"}, {"name": "a", "request": "s"}],
        "twice": [{"name": "a"}, {"name": "a"}],
        "request-twice": [{"name": "a", "request": "r"}, {"name": "a", "request": "r"}],
        "whole-then-request": [{"name": "a"}, {"name": "a", "request": "r"}],
        "request-then-whole": [{"name": "a", "request": "r"}, {"name": "a"}],
        "unknown": [{"name": "c9"}],
        "empty": [{}],
        "sub": [{"name": "a", "request": "r/s"}],
        "unknown-twice": [{"name": "c9"}, {"name": "c9"}],
        "three": [{"name": "a", "request": "r"}, {"name": "a"}, {"name": "a", "request": "r"}, {"name": "a"}],
        "prefix": [{"name": "a", "request": "b"}, {"name": "a-b"}],
    }
    for key, used in uses.items():
        yield one(f"uses/{key}", pod([entry, made], used))
        yield one(f"init-uses/{key}", pod([entry, made], init=used))
    yield one("uses/no-entries", pod([], [{"name": "a"}]))
    yield one("uses/many-names", pod([made, entry, {"name": "0", "resourceClaimName": "x"}], [{"name": "z"}]))
    for key, statuses in {
        "fine": [{"name": "a", "resourceClaimName": "x-y"}],
        "none": [{"name": "a"}],
        "unknown": [{"name": "z", "resourceClaimName": "x"}],
        "twice": [{"name": "a"}, {"name": "a"}],
        "bad": [{"name": "a", "resourceClaimName": "X_"}],
        "empty": [{}],
        "empty-claim": [{"name": "a", "resourceClaimName": ""}],
        "unknown-twice": [{"name": "z"}, {"name": "z"}],
    }.items():
        yield (
            f"pod/status/{key}",
            [create(pod([entry])), patch("Pod", {"status": {"resourceClaimStatuses": statuses}}, subresource="status")],
        )
    for key, extended in EXTENDED.items():
        asks = {"resources": {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}}
        containers = [{"name": "c", "image": "i", **asks}, {"name": "d", "image": "i"}]
        yield (
            f"pod/extended/{key}",
            [
                create(merged(pod([]), {"spec": {"containers": containers}})),
                patch("Pod", {"status": {"extendedResourceClaimStatus": extended}}, subresource="status"),
            ],
        )
    for key, uses_ in NODE_RESOURCES.items():
        status = {
            "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "made"}],
            "nodeAllocatableResourceClaimStatuses": uses_,
        }
        yield (
            f"pod/node-resources/{key}",
            [create(pod([entry, made])), patch("Pod", {"status": status}, subresource="status")],
        )
    yield (
        "pod/update",
        [
            create(pod([entry], [{"name": "a"}])),
            update({"spec": {"resourceClaims": []}}),
            update({"metadata": {"labels": {"a": "b"}}}),
            patch("Pod", {"spec": {"resourceClaims": [made]}}),
            operations("Pod", [{"op": "remove", "path": "/spec/containers/0/resources/claims"}]),
            patch("Pod", {"metadata": {"annotations": {"k": "v"}}}),
            get("Pod"),
        ],
    )
