"""ResourceSlice."""

from __future__ import annotations

from collections.abc import Iterator

from devtools.upstream.apiserver.scenarios.building import (
    OLD,
    UID,
    Json,
    Scenario,
    create,
    device,
    get,
    obj,
    patch,
    slice_,
    update,
)
from devtools.upstream.apiserver.scenarios.tables import (
    BINDINGS,
    DRIVERS,
    NAMES,
    POOLS,
    QNAMES,
    SELECTORS,
    SKIPS,
    TAINTS,
)

ATTRIBUTES: dict[str, Json] = {
    "int": {"int": 1},
    "bool": {"bool": False},
    "string": {"string": "s"},
    "version": {"version": "1.2.3-rc.1+b"},
    "none": {},
    "two": {"int": 1, "bool": True},
    "long": {"string": "s" * 65},
    "max": {"string": "s" * 64},
    "v-version": {"version": "v1.2.3"},
    "short-version": {"version": "1.2"},
    "long-version": {"version": "1.2.3-" + "a" * 60},
    "zero-version": {"version": "01.2.3"},
    "empty-version": {"version": ""},
    "empty-string": {"string": ""},
    "ints": {"ints": [1, 2, 1]},
    "bools": {"bools": [True, True]},
    "strings": {"strings": ["a", "a"]},
    "versions": {"versions": ["1.0.0", "x"]},
    "no-ints": {"ints": []},
    "no-bools": {"bools": []},
    "no-strings": {"strings": []},
    "no-versions": {"versions": []},
    "long-strings": {"strings": ["a", "s" * 65]},
    "list-and-scalar": {"int": 1, "ints": [1]},
    "unicode": {"string": "ä" * 33},
    "null": {"int": None},
    "text-int": {"int": "1"},
    "huge-int": {"int": 2**63},
    "all": {"int": 1, "bool": True, "string": "s", "version": "1.0.0"},
    "empty-lists": {"ints": [], "strings": []},
    "long-and-two": {"string": "s" * 65, "int": 1},
    "empty-and-scalar": {"int": 1, "ints": []},
    "48-ints": {"ints": list(range(48))},
    "49-ints": {"ints": list(range(49))},
    "version-big": {"version": "99999999999999999999.0.0"},
    "version-plus": {"version": "1.0.0+"},
    "version-long-bad": {"version": "1" * 65},
    "versions-long-bad": {"versions": ["1.0.0", "1" * 65]},
}


def policies() -> Iterator[tuple[str, str, Json]]:
    values = {
        "fine": ["1Gi", "2Gi"],
        "descending": ["2Gi", "1Gi"],
        "same": ["1Gi", "1Gi"],
        "same-unit": ["1Gi", "1024Mi"],
        "larger": ["1Gi", "20Gi"],
        "without-default": ["2Gi"],
        "11": [f"{i}Gi" for i in range(1, 12)],
        "10": ["1Gi", *(f"{i}Gi" for i in range(2, 10)), "10Gi"],
        "descending-larger": ["30Gi", "1Gi"],
        "fraction": ["500m", "1Gi"],
        "close": ["1073741823500m", "1Gi"],
        "zero": ["0", "1Gi"],
        "negative": ["-1", "1Gi"],
        "same-fraction": ["0.5", "500m", "1Gi"],
        "same-decimals": ["0.50", "0.5", "0.5", "1Gi"],
        "same-whole": ["1", "1000m", "1.0", "1Gi"],
        "same-thousand": ["1k", "1000", "1e3", "1Gi"],
        "same-negative": ["-0.5", "-500m", "-0.5", "1Gi"],
        "same-nano": ["1n", "0.000000001", "1Gi"],
    }
    for key, entries in values.items():
        yield f"values/{key}", "10Gi", {"default": "1Gi", "validValues": entries}
    yield "values/no-default", "10Gi", {"validValues": ["1Gi"]}
    yield "values/empty", "10Gi", {"default": "1Gi", "validValues": []}
    yield "only-default", "10Gi", {"default": "100Gi"}
    yield "nothing", "10Gi", {}
    yield "both", "10Gi", {"default": "1Gi", "validValues": ["1Gi"], "validRange": {"min": "1Gi"}}
    ranges: dict[str, tuple[str, str | None, Json]] = {
        "fine": ("10", "2", {"min": "2", "max": "10", "step": "2"}),
        "no-min": ("10", "2", {"max": "10"}),
        "no-default": ("10", None, {"min": "1"}),
        "min-large": ("10", "20", {"min": "20"}),
        "default-small": ("10", "1", {"min": "2"}),
        "max-small": ("10", "3", {"min": "3", "max": "2"}),
        "max-large": ("10", "3", {"min": "3", "max": "20"}),
        "default-large": ("10", "9", {"min": "3", "max": "8"}),
        "step-zero": ("10", "3", {"min": "3", "step": "0"}),
        "step-negative": ("10", "3", {"min": "3", "step": "-1"}),
        "step-large": ("10", "3", {"min": "3", "step": "8"}),
        "default-off": ("10", "4", {"min": "3", "step": "2"}),
        "max-off": ("10", "3", {"min": "3", "max": "6", "step": "2"}),
        "both-off": ("10", "4", {"min": "3", "max": "6", "step": "2"}),
        "fraction": ("10", "1.5", {"min": "0.5", "max": "2.5", "step": "0.5"}),
        "fraction-off": ("10", "1.6", {"min": "0.5", "step": "0.5"}),
        "micro": ("10", "1500001u", {"min": "1", "step": "1"}),
        "micro-no-step": ("10", "1500001u", {"min": "1"}),
        "negative": ("10", "-1", {"min": "-2", "step": "1"}),
        "negative-fraction": ("10", "-1.5", {"min": "-2.5", "step": "0.5"}),
        "huge": ("20E", "10E", {"min": "10E", "step": "1"}),
        "huge-no-step": ("20E", "10E", {"min": "10E"}),
        "huge-max": ("20E", "1", {"min": "1", "max": "10E", "step": "1"}),
        "everything": ("10", "0", {"min": "20", "max": "15", "step": "0"}),
        "step-only": ("10", "3", {"step": "2"}),
        "empty": ("10", "3", {}),
        "fraction-huge": ("20E", "0.5", {"min": "0.5", "max": "10E", "step": "0.5"}),
        "nano": ("10", "1n", {"min": "1n", "max": "3n", "step": "1n"}),
        "negative-no-step": ("10", "-1", {"min": "-2"}),
        "suffix": ("10Gi", "3Gi", {"min": "1Gi", "max": "9Gi", "step": "1024Mi"}),
        "one-step": ("10.5", "3", {"min": "3", "step": "8"}),
        "max-equal": ("10", "10", {"min": "10", "max": "10", "step": "1"}),
    }
    for key, (total, default, bounds) in ranges.items():
        yield (
            f"range/{key}",
            total,
            {"validRange": bounds} if default is None else {"default": default, "validRange": bounds},
        )


def slices() -> Iterator[Scenario]:
    def one(name: str, body: Json) -> Scenario:
        return f"slice/{name}", [create(body)]

    yield one("fine", slice_(device()))
    yield one("empty", obj("ResourceSlice", {}))
    yield one("no-spec", obj("ResourceSlice", None))
    yield one("no-devices", slice_())
    for key, name in DRIVERS.items():
        yield one(f"driver/{key}", slice_(driver=name))
    for key, name in POOLS.items():
        yield one(f"pool/{key}", slice_(pool={"name": name}))
    for key, name in NAMES.items():
        yield one(f"device-name/{key}", slice_(device(name)))
        yield one(f"node-name/{key}", slice_(nodeName=name))
        yield one(f"counter-set/{key}", slice_(sharedCounters=[{"name": name, "counters": {"c": {"value": "1"}}}]))
        yield one(f"counter/{key}", slice_(sharedCounters=[{"name": "s", "counters": {name: {"value": "1"}}}]))
        yield one(f"object-name/{key}", slice_(name=name))
    yield one("pool/generation", slice_(pool={"generation": -1}))
    yield one("pool/generation-0", slice_(pool={"generation": 0}))
    yield one("pool/count-0", slice_(pool={"resourceSliceCount": 0}))
    yield one("pool/count-negative", slice_(pool={"resourceSliceCount": -1}))
    yield one("pool/all-wrong", slice_(pool={"name": "-", "generation": -1, "resourceSliceCount": -1}, driver="-"))
    places: dict[str, Json] = {
        "none": {"nowhere": True},
        "name": {"nodeName": "n"},
        "name-empty": {"nodeName": ""},
        "all-false": {"allNodes": False},
        "per-device-false": {"perDeviceNodeSelection": False},
        "per-device": {"perDeviceNodeSelection": True},
        "name-all": {"nodeName": "n", "allNodes": True},
        "name-empty-all": {"nodeName": "", "allNodes": True},
        "four": {"nodeName": "n", "nodeSelector": SELECTORS["fine"], "allNodes": True, "perDeviceNodeSelection": True},
        "selector-and-false": {"nodeSelector": SELECTORS["fine"], "allNodes": False},
        "null": {"nodeName": None, "allNodes": True},
        "bad-and-all": {"nodeName": "N", "allNodes": True},
    }
    for key, place in places.items():
        yield one(f"place/{key}", slice_(**place))
    for key, selector in SELECTORS.items():
        yield one(f"node-selector/{key}", slice_(nodeSelector=selector))
        yield one(f"device-node-selector/{key}", slice_(device(nodeSelector=selector), perDeviceNodeSelection=True))
    device_places: dict[str, Json] = {
        "none": {},
        "name": {"nodeName": "n"},
        "empty": {"nodeName": ""},
        "false": {"allNodes": False},
        "all": {"allNodes": True},
        "two": {"nodeName": "n", "allNodes": True},
        "bad": {"nodeName": "N"},
        "three": {"nodeName": "n", "nodeSelector": SELECTORS["fine"], "allNodes": True},
        "empty-false": {"nodeName": "", "allNodes": False},
        "bad-two": {"nodeName": "N", "allNodes": True},
    }
    for key, place in device_places.items():
        yield one(f"device-place/{key}", slice_(device(**place), perDeviceNodeSelection=True))
        yield one(f"device-place-unasked/{key}", slice_(device(**place)))
    yield one("devices-128", slice_(*(device(f"d{i}") for i in range(128))))
    yield one("devices-129", slice_(*(device(f"D{i}") for i in range(129))))
    taint: Json = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    yield one("devices-64-taint", slice_(*(device(f"d{i}") for i in range(63)), device("t", **taint)))
    yield one("devices-65-taint", slice_(*(device(f"d{i}") for i in range(64)), device("t", **taint)))
    yield one(
        "devices-65-counter",
        slice_(
            *(device(f"d{i}") for i in range(64)),
            device("t", consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}]),
        ),
    )
    yield one(
        "devices-65-list", slice_(*(device(f"d{i}") for i in range(64)), device("t", attributes={"a": {"ints": [1]}}))
    )
    yield one(
        "devices-65-empty-list",
        slice_(*(device(f"d{i}") for i in range(64)), device("t", attributes={"a": {"ints": []}})),
    )
    yield one("devices-65-empty-taints", slice_(*(device(f"d{i}") for i in range(64)), device("t", taints=[])))
    faulty = device(
        "D",
        attributes={"a": {}, "b": {"ints": [1], "int": 1}, "c": {"version": "x"}, "-": {"strings": ["s" * 65]}},
        consumesCounters=[
            {"counterSet": "S", "counters": {"C": {"value": "1"}}, "compatibilityGroups": ["G", "g", "h"]},
            {},
        ],
        taints=[{"effect": "x"}, {}],
        bindingConditions=list("abcde"),
        bindingFailureConditions=["a b"],
        nodeAllocatableResources={
            "disk": {"mapping": {}},
            "cpu": {"mapping": {"capacityKey": "z"}},
            "memory": {"overhead": {}},
        },
        nodeName="",
    )
    yield one("devices-65-faulty", slice_(*(device(f"d{i}") for i in range(64)), faulty))
    yield one(
        "devices-129-faulty",
        slice_(*(device("d") for _ in range(128)), device("D", attributes={"a": {}}, nodeName="N")),
    )
    yield one(
        "null-entries",
        slice_(
            device(
                attributes={"a": None},
                capacity={"c": None, "d": {"value": None}},
                nodeAllocatableResources={"cpu": None},
            )
        ),
    )
    yield one("null-counters-entry", slice_(sharedCounters=[{"name": "s", "counters": {"c": None}}]))
    typed = "a\u0007<&>\u2028\u007f"
    yield one(
        "texts-of-types",
        slice_(
            device(nodeAllocatableResources={typed: {"mapping": {"capacityKey": typed, "capacityMultiplier": "1"}}}),
            device("e", taints=[{"key": typed, "value": typed, "effect": typed}]),
            skipNodeOperations=[typed],
        ),
    )
    yield one("device-twice", slice_(device(), device(), device("D"), device("D")))
    yield one(
        "device-and-counters", slice_(device(), sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}])
    )
    yield one(
        "empty-devices-and-counters",
        slice_(devices=[], sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}]),
    )
    yield one("devices-and-empty-counters", slice_(device(), sharedCounters=[]))
    yield one("null-devices", slice_(devices=None, sharedCounters=[{"name": "s", "counters": {"c": {"value": "1"}}}]))
    yield one("null-counters", slice_(device(), sharedCounters=None))
    yield one("both-empty", slice_(devices=[], sharedCounters=[]))
    for key, attribute in ATTRIBUTES.items():
        yield one(f"attribute/{key}", slice_(device(attributes={"a": attribute})))
    for key, name in QNAMES.items():
        yield one(f"attribute-name/{key}", slice_(device(attributes={name: {"int": 1}})))
        yield one(f"capacity-name/{key}", slice_(device(capacity={name: {"value": "1"}})))
        yield one(f"attribute-name-bad-value/{key}", slice_(device(attributes={name: {}})))
        yield one(
            f"partition-type/{key}",
            slice_(
                device(
                    consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "1"}}}],
                    attributes={"k": {"string": "x"}},
                ),
                partitionTypeAttribute=name,
            ),
        )
    many = {f"a{i}": {"int": i} for i in range(32)}
    yield one("attributes-32", slice_(device(attributes=many)))
    yield one("attributes-33", slice_(device(attributes=many, capacity={"c": {"value": "1"}})))
    yield one(
        "attribute-values-49",
        slice_(device(attributes={**{f"a{i}": {"int": i} for i in range(20)}, "l": {"ints": list(range(29))}})),
    )
    yield one(
        "attribute-values-48",
        slice_(device(attributes={**{f"a{i}": {"int": i} for i in range(20)}, "l": {"ints": list(range(28))}})),
    )
    yield one("capacity-negative", slice_(device(capacity={"c": {"value": "-1"}})))
    yield one("capacity-bad", slice_(device(capacity={"c": {"value": "x"}})))
    yield one("capacity-number", slice_(device(capacity={"c": {"value": 5}})))
    yield one("capacity-no-value", slice_(device(capacity={"c": {}})))
    yield one(
        "capacity-form",
        slice_(
            device(
                capacity={
                    "c": {"value": "1024Mi"},
                    "d": {"value": "0.5"},
                    "e": {"value": "1e3"},
                    "f": {"value": "1500m"},
                    "g": {"value": "1.0"},
                }
            )
        ),
    )
    for key, total, policy in policies():
        yield one(
            f"policy/{key}",
            slice_(device(allowMultipleAllocations=True, capacity={"c": {"value": total, "requestPolicy": policy}})),
        )
    yield one(
        "policy/not-shared",
        slice_(device(capacity={"c": {"value": "1", "requestPolicy": {"default": "1", "validValues": ["2"]}}})),
    )
    yield one(
        "policy/not-shared-false",
        slice_(
            device(allowMultipleAllocations=False, capacity={"c": {"value": "1", "requestPolicy": {"default": "1"}}})
        ),
    )
    yield one(
        "policy/bad-name",
        slice_(
            device(
                allowMultipleAllocations=True, capacity={"-": {"value": "1", "requestPolicy": {"validValues": ["1"]}}}
            )
        ),
    )
    for key, value in TAINTS.items():
        yield one(f"taint/{key}", slice_(device(taints=[value])))
    yield one("taints-16", slice_(device(taints=[{"key": f"k{i}", "effect": "NoSchedule"} for i in range(16)])))
    yield one("taints-17", slice_(device(taints=[{"key": f"k{i}", "effect": "x"} for i in range(17)])))
    yield one("taint-twice", slice_(device(taints=[{"key": "k", "effect": "NoSchedule"}] * 2)))
    for key, binding in BINDINGS.items():
        yield one(f"binding/{key}", slice_(device(bindsToNode=True, **binding)))
    for key, skips in SKIPS.items():
        yield one(f"skip/{key}", slice_(device(), skipNodeOperations=skips))
    counter = {"c": {"value": "1"}}
    consumptions: dict[str, list[Json]] = {
        "fine": [{"counterSet": "s", "counters": counter}],
        "empty": [{}],
        "no-counters": [{"counterSet": "s", "counters": {}}],
        "twice": [{"counterSet": "s", "counters": counter}] * 2,
        "3": [{"counterSet": f"s{i}", "counters": counter} for i in range(3)],
        "33": [{"counterSet": "s", "counters": {f"c{i}": {"value": "1"} for i in range(33)}}],
        "negative": [{"counterSet": "s", "counters": {"c": {"value": "-1"}}}],
        "bad": [{"counterSet": "S", "counters": {"C": {"value": "1"}}}],
        "groups": [{"counterSet": "s", "counters": counter, "compatibilityGroups": ["a", "b"]}],
        "groups-3": [{"counterSet": "s", "counters": counter, "compatibilityGroups": ["a", "b", "c"]}],
        "groups-twice": [{"counterSet": "s", "counters": counter, "compatibilityGroups": ["a", "a"]}],
        "groups-bad": [{"counterSet": "s", "counters": counter, "compatibilityGroups": ["A"]}],
        "groups-empty": [{"counterSet": "s", "counters": counter, "compatibilityGroups": [""]}],
        "no-value": [{"counterSet": "s", "counters": {"c": {}}}],
    }
    for key, entries in consumptions.items():
        yield one(f"consumption/{key}", slice_(device(consumesCounters=entries)))
    counter_sets: dict[str, list[Json]] = {
        "empty": [{}],
        "no-counters": [{"name": "s", "counters": {}}],
        "twice": [{"name": "s", "counters": counter}] * 2,
        "9": [{"name": f"S{i}", "counters": counter} for i in range(9)],
        "8": [{"name": f"s{i}", "counters": counter} for i in range(8)],
        "33": [{"name": "s", "counters": {f"c{i}": {"value": "1"} for i in range(33)}}],
        "32": [{"name": "s", "counters": {f"c{i}": {"value": "1"} for i in range(32)}}],
        "negative": [{"name": "s", "counters": {"c": {"value": "-1"}}}],
    }
    for key, sets in counter_sets.items():
        yield one(f"counter-sets/{key}", slice_(sharedCounters=sets))
    consuming = {"consumesCounters": consumptions["fine"]}
    partitions: dict[str, tuple[Json, ...]] = {
        "fine": (device("a", **consuming, attributes={"t": {"string": "x"}}), device("b")),
        "qualified": (device("a", **consuming, attributes={"dr.io/t": {"string": "x"}, "t": {"int": 1}}),),
        "qualified-int": (device("a", **consuming, attributes={"dr.io/t": {"int": 1}, "t": {"string": "x"}}),),
        "missing": (device("a", **consuming), device("b", **consuming, attributes={"t": {"string": "x"}})),
        "int": (device("a", **consuming, attributes={"t": {"int": 1}}),),
        "no-consumers": (device("a", attributes={"t": {"string": "x"}}),),
        "strings": (device("a", **consuming, attributes={"t": {"strings": ["x"]}}),),
    }
    for key, partitioned in partitions.items():
        yield one(f"partition/{key}", slice_(*partitioned, partitionTypeAttribute="dr.io/t"))
        yield one(f"partition-other-domain/{key}", slice_(*partitioned, partitionTypeAttribute="other.io/t"))
    yield one("partition/no-devices", slice_(partitionTypeAttribute="dr.io/t"))
    allocatable: dict[str, Json] = {
        "fine": {"memory": {"mapping": {"capacityKey": "m", "capacityMultiplier": "1"}}},
        "device": {"cpu": {"mapping": {"deviceMultiplier": "2"}}},
        "empty": {"cpu": {}},
        "resource": {"example.com/x": {"mapping": {"deviceMultiplier": "2"}}},
        "none": {"cpu": {"mapping": {}}},
        "both": {"cpu": {"mapping": {"capacityKey": "m", "capacityMultiplier": "1", "deviceMultiplier": "1"}}},
        "unknown": {"cpu": {"mapping": {"capacityKey": "z", "capacityMultiplier": "1"}}},
        "empty-key": {"cpu": {"mapping": {"capacityKey": "", "capacityMultiplier": "1"}}},
        "no-multiplier": {"cpu": {"mapping": {"capacityKey": "m"}}},
        "only-multiplier": {"cpu": {"mapping": {"capacityMultiplier": "1"}}},
        "zero": {"cpu": {"mapping": {"deviceMultiplier": "0"}}},
        "negative": {"cpu": {"mapping": {"capacityKey": "m", "capacityMultiplier": "-1"}}},
        "overhead": {"cpu": {"overhead": {"perPod": "1"}}},
        "overhead-empty": {"cpu": {"overhead": {}}},
        "overhead-negative": {"cpu": {"overhead": {"perPod": "-1", "perContainer": "-1"}}},
        "hugepages": {"hugepages-2Mi": {"overhead": {"perContainer": "0"}}},
        "hugepages-bad": {"hugepages-": {"overhead": {"perContainer": "1"}}},
        "multiplier-device": {"cpu": {"mapping": {"capacityMultiplier": "1", "deviceMultiplier": "1"}}},
        "storage": {"ephemeral-storage": {"overhead": {"perPod": "1"}}},
        "everything": {"x": {"mapping": {}, "overhead": {}}},
        "empty-name": {"": {}},
    }
    for key, resources in allocatable.items():
        yield one(
            f"allocatable/{key}", slice_(device(capacity={"m": {"value": "1"}}, nodeAllocatableResources=resources))
        )

    plain = slice_(device(capacity={"c": {"value": "1"}}, attributes={"a": {"int": 1}}), nodeName="n", nowhere=True)
    yield (
        "slice/update",
        [
            create(plain),
            update({"spec": {"driver": "other.io"}}),
            update({"spec": {"pool": {"name": "q"}}}),
            update({"spec": {"nodeName": "m"}}),
            update({"spec": {"nodeName": None, "allNodes": True}}),
            update({"spec": {"pool": {"generation": 0, "resourceSliceCount": 3}}}),
            update({"spec": {"devices": [device("new")]}}, 5),
            update({"spec": {"devices": [device("N")]}}, 6),
            update({}, 6),
            update({"metadata": {"resourceVersion": None, "labels": {"a": "b"}}}, 6),
            update({"metadata": {"labels": {"stale": "b"}}}, 0),
            update({"metadata": {"uid": UID}}, 9),
            update({"metadata": {"resourceVersion": None, "uid": UID}}, 9),
            {"verb": "updateStatus", "base": 9, "change": {}},
            patch("ResourceSlice", {"spec": {"devices": None}}),
            get("ResourceSlice"),
        ],
    )
    tainted = slice_(device(taints=[{"key": "k", "effect": "NoSchedule", "timeAdded": OLD}]))
    yield (
        "slice/update-taint",
        [
            create(tainted),
            update({"spec": {"devices": [device(taints=[{"key": "k", "effect": "NoExecute", "timeAdded": OLD}])]}}),
            update({"spec": {"devices": [device(taints=[{"key": "k", "effect": "NoExecute"}])]}}, 1),
        ],
    )
    yield (
        "slice/update-place-null",
        [
            create(slice_(device(), allNodes=True)),
            update({"spec": {"allNodes": None, "nodeName": "n"}}),
            update({"spec": {"allNodes": None, "nodeSelector": SELECTORS["fine"]}}),
        ],
    )
