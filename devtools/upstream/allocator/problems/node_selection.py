"""Where slices and devices can be reached."""

from __future__ import annotations

from devtools.upstream.allocator.problems.mix import Json, Mix

_EXPRESSIONS: tuple[Json, ...] = (
    {"key": "zone", "operator": "In", "values": ["z1"]},
    {"key": "zone", "operator": "In", "values": ["z1", "z2"]},
    {"key": "zone", "operator": "Exists"},
    {"key": "gpu", "operator": "DoesNotExist"},
    {"key": "zone", "operator": "NotIn", "values": ["z3"]},
    {"key": "zone", "operator": "In", "values": ["z2", "z1"]},
    {"key": "rank", "operator": "Gt", "values": ["1"]},
    {"key": "rank", "operator": "Lt", "values": ["7"]},
    {"key": "missing", "operator": "NotIn", "values": ["z1"]},
)


def node(mix: Mix) -> Json:
    made: Json = {
        "metadata": {
            "name": mix.pick({"n1": 9, "n2": 1}),
            "labels": {"zone": mix.pick({"z1": 5, "z2": 1}), "rank": "5"},
        }
    }
    if mix.has("node_operations", 0.6, 0.3):
        made["status"] = {
            "declaredFeatures": mix.choice(
                (["DRAOptionalNodeOperations"], ["Other", "DRAOptionalNodeOperations"], ["Other"])
            )
        }
    return made


def of_slice(mix: Mix) -> Json:
    """The fields of a slice's spec."""
    strong = "node_selection" in mix.strong
    if mix.chance(
        0.01
    ):  # what validation refuses: the first of nodeName, allNodes and nodeSelector that says something counts
        return mix.choice(
            (
                {"nodeName": "", "allNodes": True},
                {"nodeName": "n1", "allNodes": True},
                {"allNodes": False, "nodeSelector": selector(mix)},
                {"allNodes": True, "perDeviceNodeSelection": False},
                {"allNodes": True, "nodeSelector": selector(mix)},
                {"nodeName": "n2", "perDeviceNodeSelection": True},
                {"allNodes": False},
            )
        )
    kind = mix.pick(
        {
            "node": 6.0,
            "other": 0.5,
            "all": 4.0,
            "selector": 3.0 if strong else 1.0,
            "device": 3.0 if strong else 0.5,
            "nothing": 0.05,
        }
    )
    match kind:
        case "node":
            return {"nodeName": "n1"}
        case "other":
            return {"nodeName": "n2"}
        case "all":
            return {"allNodes": True}
        case "selector":
            return {"nodeSelector": selector(mix)}
        case "device":
            return {"perDeviceNodeSelection": True}
    return {}


def of_device(mix: Mix) -> Json:
    if mix.chance(0.02):
        return mix.choice(
            ({"nodeName": "", "allNodes": True}, {"allNodes": False}, {"nodeName": "n2", "allNodes": True})
        )
    kind = mix.pick({"node": 5, "other": 1, "all": 3, "selector": 3, "nothing": 0.3})
    match kind:
        case "node":
            return {"nodeName": "n1"}
        case "other":
            return {"nodeName": "n2"}
        case "all":
            return {"allNodes": True}
        case "selector":
            return {"nodeSelector": selector(mix)}
    return {}


def selector(mix: Mix) -> Json:
    """Rarely with two terms, which a result can't express, or one that can't be read."""
    terms = [_term(mix) for _ in range(2 if mix.chance(0.03) else 1)]
    if mix.chance(0.004) and "matchExpressions" in terms[0]:
        terms[0]["matchExpressions"][0] |= mix.choice(
            ({"operator": "Inn"}, {"key": "a b"}, {"operator": "In", "values": []})
        )
    return {"nodeSelectorTerms": terms}


def _term(mix: Mix) -> Json:
    term: Json = {"matchExpressions": [dict(mix.choice(_EXPRESSIONS)) for _ in range(mix.choice((1, 1, 2)))]}
    if mix.chance(0.2):
        operator, name = mix.pick({("In", "n1"): 3.0, ("NotIn", "n2"): 2.0, ("NotIn", "n3"): 2.0, ("In", "n2"): 0.5})
        term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
    if mix.chance(0.01):
        del term["matchExpressions"]
    return term
