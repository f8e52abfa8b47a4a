"""Good and bad values of the formats and types that several kinds share, by a word for what is special."""

from __future__ import annotations

from typing import Any

from devtools.upstream.apiserver.scenarios.building import LABEL64, OLD, Json

NAMES = {
    "upper": "A",
    "underscore": "a_b",
    "dots": "a.b",
    "long": LABEL64,
    "long-dots": "a." + "b" * 64,
    "empty": "",
    "dash-end": "a-",
    "dash-start": "-a",
    "digit": "1",
    "space": "a b",
    "unicode": "ä",
    "slash": "a/b",
    "control": "a\nb",
    "quote": 'a"b',
    "max": "a" * 63,
}
DRIVERS = {
    "upper": "A.Example.com",
    "underscore": "a_b",
    "long": "a" * 64,
    "long-dots": "a." + "b" * 62,
    "max": "a" * 63,
    "empty": "",
    "slash": "a/b",
    "dot-end": "a.",
    "wide-label": "b." + "a" * 61,
}
POOLS = {
    "slashes": "a/b.c/d",
    "empty-part": "a//b",
    "upper": "A",
    "end-slash": "a/",
    "long": "a" * 254,
    "max": "a" * 253,
    "empty": "",
    "slash": "/",
    "two-faults": "A/_",
    "long-bad": "A" * 254,
}
KEYS = {
    "plain": "k",
    "domain": "example.com/k",
    "empty": "",
    "slash": "/",
    "two": "a/b/c",
    "upper-domain": "Example.com/k",
    "no-name": "a/",
    "long": "k" * 64,
    "bad": "k k",
    "dash": "-k",
    "long-domain": "d" * 254 + "/k",
}
QNAMES = {
    "bare": "k",
    "domain": "example.com/k",
    "no-domain": "/k",
    "no-name": "example.com/",
    "slash": "/",
    "two": "a/b/c",
    "dash": "a-b",
    "long": "k" * 33,
    "max": "k" * 32,
    "digit": "1k",
    "upper-domain": "Example.com/k",
    "bad-domain": "a_b/k",
    "long-domain": "d" * 64 + "/k",
    "underscore": "_",
    "empty": "",
    "two-bad": "-/-/-",
    "both-bad": "A_/k-",
    "unicode": "kä",
    "long-two": "d" * 64 + "/" + "k" * 33,
}
REFERENCES = {
    "known": "r",
    "unknown": "s",
    "sub": "r/a",
    "sub-unknown": "r/z",
    "three": "r/a/b",
    "empty": "",
    "upper": "R",
    "slash": "/",
    "sub-empty": "r/",
    "only-sub": "/a",
    "dots": "r.r",
    "unknown-sub": "z/a",
    "exact-sub": "e/a",
}
TOLERATIONS: dict[str, Json] = {
    "defaulted": {},
    "equal": {"key": "k", "operator": "Equal", "value": "v"},
    "exists-value": {"key": "k", "operator": "Exists", "value": "v"},
    "operator": {"operator": "Less"},
    "key": {"key": "a b", "operator": "Exists"},
    "value": {"key": "k", "value": "a b"},
    "effect": {"operator": "Exists", "effect": "Evict"},
    "effect-none": {"operator": "Exists", "effect": "None"},
    "seconds": {"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": -1},
    "all-wrong": {"key": "-", "operator": "Exists", "value": "-", "effect": "-"},
    "no-key-equal": {"operator": "Equal", "value": "v"},
    "long-value": {"key": "k", "value": "v" * 64},
    "wrong-operator-value": {"operator": "x", "value": "a b", "effect": "x"},
}
TAINTS: dict[str, Json] = {
    "fine": {"key": "k", "effect": "NoExecute"},
    "none": {"key": "k", "effect": "None"},
    "no-key": {"effect": "NoSchedule"},
    "no-effect": {"key": "k"},
    "effect": {"key": "k", "effect": "x"},
    "value": {"key": "k", "value": "a b", "effect": "NoSchedule"},
    "key": {"key": "a b", "effect": "NoSchedule"},
    "time": {"key": "k", "effect": "NoSchedule", "timeAdded": OLD},
    "empty": {},
    "long": {"key": "k" * 64, "value": "v" * 64, "effect": "NoSchedule"},
    "null-time": {"key": "k", "effect": "NoSchedule", "timeAdded": None},
    "offset-time": {"key": "k", "effect": "NoSchedule", "timeAdded": "2024-05-06T09:08:09+02:00"},
    "fraction-time": {"key": "k", "effect": "NoSchedule", "timeAdded": "2024-05-06T07:08:09.987Z"},
}
PARAMETERS: dict[str, Any] = {
    "object": {"a": 1},
    "empty": {},
    "null": None,
    "list": [1],
    "text": "x",
    "number": 1,
    "html": {"a": "<&>"},
    "nested": {"a": {"b": [1.5, None, True]}},
    "long": {"a": "x" * 10240},
    "max": {"a": "x" * (10240 - 8)},
    "over": {"a": "x" * (10240 - 7)},
    "bool": True,
}


SELECTORS: dict[str, Json] = {
    "fine": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]},
    "no-terms": {"nodeSelectorTerms": []},
    "empty": {},
    "empty-term": {"nodeSelectorTerms": [{}]},
    "two-terms": {"nodeSelectorTerms": [{}, {}]},
    "operator": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Is", "values": ["n"]}]}]},
    "in-empty": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In"}]}]},
    "exists-value": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["a"]}]}]
    },
    "gt-two": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["1", "2"]}]}]},
    "gt-text": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["x"]}]}]},
    "bad-key": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a b", "operator": "Exists"}]}]},
    "bad-value": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "In", "values": ["a b"]}]}]},
    "field-key": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.uid", "operator": "In", "values": ["n"]}]}]},
    "field-operator": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "Exists"}]}]},
    "field-two": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n", "m"]}]}]
    },
    "field-name": {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["N"]}]}]
    },
    "field-all-bad": {"nodeSelectorTerms": [{"matchFields": [{"key": "x", "operator": "Gt", "values": ["A", "B"]}]}]},
    "no-key": {"nodeSelectorTerms": [{"matchExpressions": [{"operator": "Exists"}]}]},
}
BINDINGS: dict[str, Json] = {
    "fine": {"bindingConditions": ["a"], "bindingFailureConditions": ["b"]},
    "only": {"bindingConditions": ["a"]},
    "only-failure": {"bindingFailureConditions": ["a"]},
    "both": {"bindingConditions": ["a"], "bindingFailureConditions": ["a"]},
    "twice": {"bindingConditions": ["a", "a"], "bindingFailureConditions": ["b", "b"]},
    "5": {"bindingConditions": list("abcde"), "bindingFailureConditions": list("fghij")},
    "bad": {"bindingConditions": ["a b"], "bindingFailureConditions": [""]},
    "domain": {"bindingConditions": ["a.b/c"], "bindingFailureConditions": ["a.b/d"]},
    "4": {"bindingConditions": list("abcd"), "bindingFailureConditions": list("fghi")},
    "5-and-same": {"bindingConditions": list("aaaaa"), "bindingFailureConditions": list("aaaaa")},
    "empty": {"bindingConditions": [], "bindingFailureConditions": []},
}
SKIPS: dict[str, list[str]] = {
    "both": ["NodePrepareResources", "NodeUnprepareResources"],
    "prepare": ["NodePrepareResources"],
    "unprepare": ["NodeUnprepareResources"],
    "every": ["*"],
    "prepare-every": ["NodePrepareResources", "*"],
    "unknown": ["x"],
    "twice": ["*", "*"],
    "empty": [],
    "many": ["*", "NodePrepareResources", "NodeUnprepareResources", "x"],
}
CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": OLD, "reason": "R"}
CONDITIONS: dict[str, list[Json]] = {
    "fine": [CONDITION],
    "twice": [CONDITION, CONDITION],
    "empty": [{}],
    "status": [{**CONDITION, "status": "x"}],
    "reason": [{**CONDITION, "reason": "a b"}],
    "no-reason": [{**CONDITION, "reason": ""}],
    "type": [{**CONDITION, "type": "a b"}],
    "message": [{**CONDITION, "message": "x" * 32769}],
    "generation": [{**CONDITION, "observedGeneration": -1}],
    "long-reason": [{**CONDITION, "reason": "r" * 1025}],
    "null-time": [{**CONDITION, "lastTransitionTime": None}],
    "9": [{**CONDITION, "type": f"T{i}"} for i in range(9)],
    "8": [{**CONDITION, "type": f"T{i}"} for i in range(8)],
    "bad-time": [{**CONDITION, "lastTransitionTime": "soon"}],
    "9-same": [CONDITION] * 9,
}
