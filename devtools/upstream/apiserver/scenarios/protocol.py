"""Metadata, conflicts, patches, deletion, selection, shapes: what holds for every kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from devtools.upstream.apiserver.scenarios.building import (
    ALPHA,
    DRA,
    OLD,
    UID,
    UUID2,
    Json,
    Scenario,
    allocation,
    claim,
    create,
    delete,
    get,
    listing,
    merged,
    obj,
    operations,
    patch,
    pod,
    request,
    result,
    rule,
    slice_,
    template,
    update,
    update_status,
)
from devtools.upstream.apiserver.scenarios.tables import KEYS


def metadata() -> Iterator[Scenario]:
    def meta(name: str, **fields: Any) -> Scenario:
        return f"metadata/{name}", [create(obj("DeviceClass", {}, **fields))]

    def bare(name: str, metadata: Json) -> Scenario:
        return f"metadata/{name}", [
            create({"apiVersion": DRA, "kind": "DeviceClass", "metadata": metadata, "spec": {}})
        ]

    yield bare("nothing", {})
    yield bare("generate-name", {"generateName": "g-"})
    yield bare("generate-both", {"name": "x", "generateName": "g-"})
    yield bare("generate-both-bad", {"name": "x", "generateName": "G-"})
    yield bare("generate-bad", {"generateName": "G"})
    yield bare("generate-bad-dash", {"generateName": "G-"})
    yield bare("generate-bad-before-dash", {"generateName": "ga_-"})
    yield bare("generate-dot", {"generateName": "g."})
    yield bare("generate-dashes", {"generateName": "g--"})
    yield bare("generate-dash", {"generateName": "-"})
    yield bare("generate-long", {"generateName": "g" * 63})
    yield bare("generate-too-long", {"generateName": "g" * 254})
    yield bare("generate-58", {"generateName": "g" * 57 + "-"})
    yield bare("generate-59-dash", {"generateName": "g" * 57 + "-g"})
    yield bare("generate-59-dot", {"generateName": "g" * 57 + ".g"})
    yield bare("name-253", {"name": "n" * 253})
    yield bare("name-254", {"name": "n" * 254})
    yield bare("name-dots", {"name": "a..b"})
    for key, name in KEYS.items():
        yield meta(f"label/{key}", labels={name: "v"})
        yield meta(f"annotation/{key}", annotations={name: "v"})
        yield meta(f"finalizer/{key}", finalizers=[name])
    for key, value in {
        "empty": "",
        "long": "v" * 64,
        "bad": "a b",
        "dash": "-v",
        "max": "v" * 63,
        "unicode": "ä",
    }.items():
        yield meta(f"label-value/{key}", labels={"k": value})
    yield meta("label-both", labels={"a b": "c d"})
    yield meta("annotations-long", annotations={"k": "v" * (256 * 1024)})
    yield meta("annotations-max", annotations={"k": "v" * (256 * 1024 - 1)})
    yield meta("label-null", labels={"a": None})
    yield meta("label-number", labels={"a": 1})
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": UID}
    owners: dict[str, list[Json]] = {
        "fine": [owner],
        "empty": [{}],
        "no-version": [{**owner, "apiVersion": ""}],
        "version": [{**owner, "apiVersion": "a/b/c"}],
        "slash": [{**owner, "apiVersion": "/v1"}],
        "no-kind": [{**owner, "kind": ""}],
        "no-uid": [{**owner, "uid": ""}],
        "no-name": [{**owner, "name": ""}],
        "two-controllers": [{**owner, "controller": True}, {**owner, "name": "m", "uid": UUID2, "controller": True}],
        "event": [{**owner, "kind": "Event"}],
        "event-group": [{**owner, "apiVersion": "events.k8s.io/v1", "kind": "Event"}],
        "three-controllers": [
            {**owner, "controller": True},
            {**owner, "name": "m", "uid": UUID2, "controller": True},
            {**owner, "name": "o", "controller": True},
        ],
        "twice": [owner, owner],
        "group-only": [{**owner, "apiVersion": "apps/"}],
    }
    for key, entries in owners.items():
        yield meta(f"owner/{key}", ownerReferences=entries)
    yield meta("uid", uid=UID)
    yield meta("resource-version", resourceVersion="5")
    yield meta("generation", generation=7)
    yield meta("generation-negative", generation=-1)
    yield meta("creation", creationTimestamp=OLD)
    yield meta("deletion", deletionTimestamp=OLD, deletionGracePeriodSeconds=5)
    yield meta("namespace-on-cluster-scoped", namespace="default")
    yield meta("self-link", selfLink="/x")
    yield meta("finalizers", finalizers=["a.b/c", "orphan"])
    yield meta("finalizers-both", finalizers=["orphan", "foregroundDeletion"])
    yield meta("finalizer-bare", finalizers=["nodomain"])
    yield meta("finalizer-twice", finalizers=["a.b/c", "a.b/c"])
    yield meta(
        "managed",
        managedFields=[
            {"manager": "m", "operation": "Update", "apiVersion": DRA, "fieldsType": "FieldsV1", "fieldsV1": {}}
        ],
    )

    yield (
        "metadata/generate-name-of-claim",
        [create({"apiVersion": DRA, "kind": "ResourceClaim", "metadata": {"generateName": "G-"}, "spec": {}})],
    )
    yield "metadata/generate-name-of-slice", [create({**slice_(), "metadata": {"generateName": "g."}})]
    bodies = {
        "claim": claim(request()),
        "template": template({"devices": {"requests": [request()]}}),
        "class": obj("DeviceClass", {}),
        "slice": slice_(),
        "rule": rule({}, {"key": "k", "effect": "NoExecute"}),
        "pool-request": obj("ResourcePoolStatusRequest", {"driver": "d"}, api=ALPHA),
        "pod": pod([]),
    }
    for key, body in bodies.items():
        yield (
            f"metadata/update/{key}",
            [
                create(body),
                update({"metadata": {"finalizers": ["bare"]}}),
                update({"metadata": {"finalizers": ["a b"]}}),
                update({"metadata": {"finalizers": ["orphan", "foregroundDeletion"]}}),
                update({"metadata": {"labels": {"a b": "c d"}, "annotations": {"a b": ""}}}),
                update({"metadata": {"ownerReferences": [{}]}}),
                update({"metadata": {"generation": -1}}),
                update({"metadata": {"deletionTimestamp": OLD}}),
                update({"metadata": {"finalizers": ["a.b/c"]}}),
                delete(body["kind"]),
                patch(body["kind"], {"metadata": {"finalizers": ["a.b/d", "a.b/c"]}}),
                patch(body["kind"], {"metadata": {"finalizers": None}}),
                get(body["kind"]),
            ],
        )
        yield f"metadata/name-long/{key}", [create(merged(body, {"metadata": {"name": "n" * 254}}))]


def protocol() -> Iterator[Scenario]:
    made = create(claim(request()))
    yield "protocol/create-twice", [made, made, create(claim(request("A")))]
    yield (
        "protocol/get-missing",
        [
            get("ResourceClaim", "nope"),
            get("DeviceClass", "nope"),
            delete("ResourceSlice", "nope"),
            get("Pod", "nope"),
            get("ResourceClaim", "nope", namespace="nowhere"),
        ],
    )
    yield (
        "protocol/update-missing",
        [
            made,
            delete("ResourceClaim"),
            update({"metadata": {"labels": {"a": "b"}}}),
            update({"metadata": {"resourceVersion": None, "uid": None}}),
            update_status({"status": {}}),
            get("ResourceClaim"),
        ],
    )
    yield (
        "protocol/update-missing-class",
        [
            create(obj("DeviceClass", {})),
            delete("DeviceClass"),
            update({}),
            update({"metadata": {"resourceVersion": None, "uid": None}}),
        ],
    )
    yield (
        "protocol/delete-preconditions",
        [
            made,
            delete("ResourceClaim", uid=UID),
            delete("ResourceClaim", resourceVersion="1"),
            delete("ResourceClaim", uid="${0.metadata.uid}", resourceVersion="1"),
            delete("ResourceClaim", uid=UID, resourceVersion="1"),
            delete("ResourceClaim", uid="${0.metadata.uid}", resourceVersion="${0.metadata.resourceVersion}"),
            get("ResourceClaim"),
        ],
    )
    yield (
        "protocol/finalizers",
        [
            create(claim(request(), meta={"finalizers": ["a.b/c", "a.b/d"]})),
            delete("ResourceClaim"),
            get("ResourceClaim"),
            delete("ResourceClaim"),
            get("ResourceClaim"),
            patch("ResourceClaim", {"metadata": {"finalizers": ["a.b/c"]}}),
            patch("ResourceClaim", {"metadata": {"deletionTimestamp": None}}),
            patch("ResourceClaim", {"metadata": {"labels": {"still": "here"}}}),
            patch("ResourceClaim", {"metadata": {"finalizers": ["a.b/c", "a.b/z", "a.b/y"]}}),
            made,
            patch("ResourceClaim", {"metadata": {"finalizers": []}}),
            get("ResourceClaim"),
        ],
    )
    yield (
        "protocol/finalizers-class",
        [
            create(obj("DeviceClass", {}, finalizers=["a.b/c"])),
            delete("DeviceClass"),
            get("DeviceClass"),
            patch("DeviceClass", {"spec": {"extendedResourceName": "a.b/c"}}),
            operations("DeviceClass", [{"op": "remove", "path": "/metadata/finalizers"}]),
            get("DeviceClass"),
        ],
    )
    yield (
        "protocol/delete-precondition-of-deleting",
        [
            create(claim(request(), meta={"finalizers": ["a.b/c"]})),
            delete("ResourceClaim"),
            delete("ResourceClaim", uid=UID),
            delete("ResourceClaim", uid="${0.metadata.uid}"),
        ],
    )
    yield (
        "protocol/conflicts",
        [
            made,
            update({"metadata": {"labels": {"a": "1"}}}),
            update({"metadata": {"labels": {"a": "2"}}}, 0),
            update({"metadata": {"labels": {"a": "2"}, "resourceVersion": None}}, 0),
            update({"metadata": {"uid": UID}}, 3),
            update({"metadata": {"uid": UID, "resourceVersion": None}}, 3),
            update({"metadata": {"uid": None}}, 3),
            update({"metadata": {"labels": {"a b": "c"}}}, 0),
            update({"metadata": {"creationTimestamp": OLD}}, 6),
            update({"metadata": {"creationTimestamp": None}}, 6),
            update({"metadata": {"generation": 9}}, 6),
            update({"metadata": {"resourceVersion": "0"}}, 6),
            update({"metadata": {"resourceVersion": "x"}}, 6),
            update({"metadata": {"generateName": "g-"}}, 6),
            update({"metadata": {"selfLink": "/x"}}, 13),
            update({"metadata": {"deletionTimestamp": OLD}}, 13),
            update({"metadata": {"deletionGracePeriodSeconds": 4}}, 13),
            update({"metadata": {"ownerReferences": [{}]}}, 13),
            get("ResourceClaim"),
        ],
    )
    yield (
        "protocol/json-patches",
        [
            create(claim(request(), meta={"labels": {"a": "b"}})),
            operations("ResourceClaim", [{"op": "add", "path": "/metadata/labels/x~1y", "value": "z"}]),
            operations(
                "ResourceClaim",
                [
                    {"op": "test", "path": "/metadata/labels/a", "value": "b"},
                    {"op": "remove", "path": "/metadata/labels/a"},
                ],
            ),
            operations("ResourceClaim", [{"op": "add", "path": "/metadata/annotations/a", "value": "b"}]),
            operations("ResourceClaim", [{"op": "replace", "path": "/metadata/labels/nope", "value": "b"}]),
            operations("ResourceClaim", [{"op": "bogus", "path": "/metadata/labels/nope", "value": "b"}]),
            operations("ResourceClaim", [{"op": "remove", "path": "/metadata/labels/nope"}]),
            operations(
                "ResourceClaim", [{"op": "copy", "from": "/metadata/labels/x~1y", "path": "/metadata/labels/w"}]
            ),
            operations("ResourceClaim", [{"op": "move", "from": "/metadata/labels/w", "path": "/metadata/labels/v"}]),
            operations("ResourceClaim", [{"op": "test", "path": "/metadata/labels/nope", "value": None}]),
            operations("ResourceClaim", [{"op": "add", "path": "/spec/devices/requests/-", "value": request("s")}]),
            operations("ResourceClaim", [{"op": "replace", "path": "/spec/devices/requests/5", "value": request("s")}]),
            operations("ResourceClaim", [{"op": "add", "path": "/spec/devices/requests/-1", "value": request("s")}]),
            operations("ResourceClaim", [{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]),
            operations("ResourceClaim", [{"op": "remove", "path": "/metadata/uid"}]),
            operations("ResourceClaim", []),
            operations("ResourceClaim", [{"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c"]}]),
            operations("ResourceClaim", [{"op": "add", "path": "/metadata/finalizers/0", "value": "a.b/d"}]),
            operations("ResourceClaim", [{"op": "test", "path": "/metadata/finalizers", "value": ["a.b/c", "a.b/d"]}]),
            operations("ResourceClaim", [{"op": "replace", "path": "/kind", "value": "Pod"}]),
            operations("ResourceClaim", [{"op": "replace", "path": "", "value": {}}]),
            operations("ResourceClaim", [{"op": "test", "path": "no-slash", "value": {}}]),
            operations(
                "ResourceClaim", [{"op": "add", "path": "/status", "value": {"allocation": allocation(result())}}]
            ),
            operations(
                "ResourceClaim",
                [{"op": "add", "path": "/status/allocation", "value": allocation(result())}],
                subresource="status",
            ),
            operations(
                "ResourceClaim",
                [{"op": "add", "path": "/status", "value": {"allocation": allocation(result())}}],
                subresource="status",
            ),
            operations("ResourceClaim", [{"op": "add", "path": "/metadata/name", "value": "z"}]),
            operations("ResourceClaim", [{"op": "add", "path": "/metadata/namespace", "value": "admin"}]),
            operations("ResourceClaim", [{"op": "remove", "path": "/metadata/namespace"}]),
            operations("ResourceClaim", [{"op": "remove", "path": "/metadata/name"}]),
            operations("ResourceClaim", [{"op": "add", "path": "/metadata/labels", "value": "x"}]),
            operations("ResourceClaim", [{"path": "/metadata/labels", "value": {}}]),
            operations("ResourceClaim", [{"op": "add", "path": "/metadata/labels"}]),
            operations("ResourceClaim", [{"op": "add", "path": "", "value": {}}]),
            operations("ResourceClaim", [{"op": "remove", "path": ""}]),
            operations("ResourceClaim", [{"op": "replace", "path": "", "value": []}]),
            operations("ResourceClaim", [{"op": "replace", "path": "", "value": 1}]),
            operations("ResourceClaim", [{"op": "test", "path": "", "value": {}}]),
            operations("ResourceClaim", [{"op": "replace", "path": "/metadata/labels/nope", "value": "b"}]),
            operations(
                "ResourceClaim",
                [
                    {"op": "add", "path": "/metadata/labels", "value": {"k": "v"}},
                    {"op": "copy", "from": "/metadata/labels/none", "path": "/metadata/labels/w"},
                ],
            ),
            operations(
                "ResourceClaim", [{"op": "move", "from": "/metadata/labels/none", "path": "/metadata/labels/w"}]
            ),
            operations("ResourceClaim", [{"op": "copy", "from": "/nowhere/none", "path": "/metadata/labels/w"}]),
            operations("ResourceClaim", [{"op": "remove", "path": "/metadata/finalizers/-1"}]),
            operations("ResourceClaim", [{"op": "remove", "path": "/metadata/finalizers/00"}]),
            operations("ResourceClaim", [{"op": "test", "path": "/metadata/finalizers/0", "value": "x"}]),
            operations("ResourceClaim", [{"op": "move", "from": "/metadata", "path": "/metadata/labels"}]),
            get("ResourceClaim"),
        ],
    )
    yield (
        "protocol/merge-patches",
        [
            create(claim(request(), meta={"labels": {"a": "b", "c": "d"}})),
            patch("ResourceClaim", {"metadata": {"labels": {"a": None, "e": "f"}}}),
            patch(
                "ResourceClaim",
                {"metadata": {"resourceVersion": "${0.metadata.resourceVersion}", "labels": {"stale": "x"}}},
            ),
            patch(
                "ResourceClaim",
                {"metadata": {"resourceVersion": "${1.metadata.resourceVersion}", "labels": {"fresh": "x"}}},
            ),
            patch("ResourceClaim", {"metadata": {"uid": UID}}),
            patch("ResourceClaim", {"metadata": {"name": "other"}}),
            patch("ResourceClaim", {"metadata": {"namespace": "admin"}}),
            patch("ResourceClaim", {"metadata": {"labels": {"x": {}}}}),
            patch("ResourceClaim", {"spec": {"devices": {"requests": "x"}}}),
            patch("ResourceClaim", {"spec": None}),
            patch("ResourceClaim", {"metadata": None}),
            patch("ResourceClaim", {"status": {"allocation": allocation(result())}}),
            patch("ResourceClaim", {"status": {"allocation": allocation(result("D"))}}, subresource="status"),
            patch(
                "ResourceClaim",
                {"status": {"allocation": allocation(result())}, "metadata": {"labels": {"not": "me"}}},
                subresource="status",
            ),
            patch("ResourceClaim", {"metadata": {"labels": {}}}),
            patch("ResourceClaim", {"metadata": {"finalizers": ["a b"]}}),
            patch("ResourceClaim", {}, "nope"),
            patch("ResourceClaim", {"metadata": {"uid": "${0.metadata.uid}"}}),
            get("ResourceClaim"),
        ],
    )
    several = [
        create(slice_(name="s1", nodeName="n1", nowhere=True, driver="d1.io")),
        create(
            merged(
                slice_(name="s2", nodeName="n2", nowhere=True, driver="d2.io", pool={"name": "q"}),
                {"metadata": {"labels": {"tier": "gold", "n": "5"}}},
            )
        ),
        create(merged(slice_(name="s3", driver="d1.io"), {"metadata": {"labels": {"tier": "tin"}}})),
    ]
    labels = [
        "",
        "tier",
        "!tier",
        "tier=gold",
        "tier==gold",
        "tier!=gold",
        "tier in (gold,tin)",
        "tier notin (gold)",
        "tier,n=5",
        "n>4",
        "n<4",
        "n>x",
        "tier in ()",
        "=",
        "tier=",
        "a b",
        "tier=gold tin",
        "tier in gold",
        "!",
        "-",
        "tier=,n",
        "tier in (gold,)",
        "A/B/c=d",
        "tier=" + "v" * 64,
        "tier=gold,",
        ",",
        "x/y",
    ]
    fields = [
        "",
        "spec.driver=d1.io",
        "spec.driver!=d1.io",
        "spec.nodeName=n1",
        "spec.nodeName=",
        "spec.pool.name=q",
        "metadata.name=s1",
        "metadata.name=s1,spec.driver=d1.io",
        "spec.allNodes=true",
        "metadata.uid=x",
        "spec.driver",
        "metadata.name==s2",
        "metadata.namespace=x",
        "spec.driver=d1.io,",
        "a=b\\",
        "metadata.name=a\\,b",
        "metadata.name=a=b",
        "metadata.labels=x",
    ]
    yield "protocol/select-labels", [*several, *(listing("ResourceSlice", labels=text) for text in labels)]
    yield "protocol/select-fields", [*several, *(listing("ResourceSlice", fields=text) for text in fields)]
    yield (
        "protocol/select-claims",
        [
            create(claim(request(), name="b")),
            create(claim(request(), name="a")),
            create(claim(request(), name="a", meta={"namespace": "admin"})),
            listing("ResourceClaim"),
            listing("ResourceClaim", namespace="default"),
            listing("ResourceClaim", fields="metadata.name=a"),
            listing("ResourceClaim", fields="metadata.namespace=admin"),
            listing("ResourceClaim", fields="spec.nodeName=x"),
            listing("ResourceClaim", namespace="nowhere"),
            listing("ResourceClaimTemplate", fields="metadata.name!=a"),
            listing("DeviceClass", fields="metadata.namespace=x"),
            listing("DeviceTaintRule", fields="spec.driver=x"),
            listing("Pod", fields="spec.nodeName=x,status.phase=Running"),
            listing("Pod", fields="spec.nothing=x"),
            listing("Node", fields="spec.unschedulable=true"),
            listing("Node", fields="spec.nothing=x"),
            listing("Namespace", fields="spec.nothing=x"),
            listing("ResourcePoolStatusRequest", fields="spec.nothing=x"),
        ],
    )


def shapes() -> Iterator[Scenario]:
    specs: dict[str, Any] = {
        "requests-text": {"devices": {"requests": "x"}},
        "spec-text": "x",
        "requests-object": {"devices": {"requests": {}}},
        "name-number": {"devices": {"requests": [{"name": 1}]}},
        "null-list": {"devices": {"requests": None}},
        "devices-list": {"devices": []},
        "admin-text": {"devices": {"requests": [request(adminAccess="true")]}},
    }
    for key, spec in specs.items():
        yield f"shape/{key}", [create(obj("ResourceClaim", spec))]
    yield "shape/metadata-list", [create({"apiVersion": DRA, "kind": "ResourceClaim", "metadata": [], "spec": {}})]
    yield (
        "shape/labels-list",
        [create({"apiVersion": DRA, "kind": "ResourceClaim", "metadata": {"name": "x", "labels": []}, "spec": {}})],
    )
    yield "shape/null-metadata", [create({"apiVersion": DRA, "kind": "ResourceClaim", "metadata": None, "spec": {}})]
