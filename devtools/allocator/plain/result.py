"""What was chosen, in wire form (A-18)."""

from __future__ import annotations

from typing import Any

from devtools.allocator.plain.errors import Fatal
from devtools.allocator.plain.facts import Facts
from devtools.allocator.plain.requests import Wanted, taken
from devtools.allocator.plain.search import Choice, Search

Json = dict[str, Any]


def results(facts: Facts, search: Search) -> list[Json]:
    names: list[str] = []
    written = []
    for c, claim in enumerate(facts.claims):
        selected = [entry.alternatives[search.selected.get((c, q), 0)] for q, entry in enumerate(search.entries[c])]
        config = _config(claim.to_wire(), selected)
        if len(config) > 64 and facts.fixed("AC-14"):
            raise Fatal(
                f"claim {claim.key}: allocation would need {len(config)} configuration entries, the limit is 64"
            )
        result: Json = {
            "devices": {"results": [_device(facts, choice, names) for choice in search.chosen[c]], "config": config}
        }
        if selector := _node_selector(facts, claim.name, search.chosen[c]):
            result["nodeSelector"] = selector
        written.append(result)
    return written


def _device(facts: Facts, choice: Choice, shares: list[str]) -> Json:
    wanted, candidate = choice.wanted, choice.candidate
    driver, pool, device = candidate.id
    published = candidate.device.to_wire()
    written: Json = {"request": wanted.full_name, "driver": driver, "pool": pool, "device": device}
    if wanted.admin:
        written["adminAccess"] = True
    if wanted.of.tolerations:
        written["tolerations"] = [toleration.to_wire() for toleration in wanted.of.tolerations]
    if facts.on("DeviceBindingAndStatus"):
        written |= {
            key: published[key] for key in ("bindingConditions", "bindingFailureConditions") if key in published
        }
    if facts.on("OptionalNodeOperations") and candidate.slice.spec.skip_node_operations:
        written["skipNodeOperations"] = list(candidate.slice.spec.skip_node_operations)
    if facts.multi(candidate):
        shares.append(device)
        written["shareID"] = f"share-{len(shares)}"
        share = taken(facts, wanted, candidate)
        written["consumedCapacity"] = (
            {name: str(amount) for name, amount in share.quantities.items()} if share is not None else {}
        )
    return written


def _config(claim: Json, selected: list[Wanted]) -> list[Json]:
    entries: list[Json] = []
    of_class: dict[str, list[Json]] = {}
    for wanted in selected:
        name = wanted.device_class.name
        if name not in of_class:
            configs = wanted.device_class.to_wire()["spec"].get("config", ())
            of_class[name] = [{"source": "FromClass", "requests": [], **config} for config in configs]
            entries += of_class[name]
        for entry in of_class[name]:
            entry["requests"].append(wanted.full_name)
    names = [{wanted.full_name, wanted.parent or wanted.name} for wanted in selected]
    for config in claim["spec"]["devices"].get("config", ()):
        listed = config.get("requests", [])
        if not listed or any(mine & set(listed) for mine in names):
            entries.append({"source": "FromClaim", **config})
    return [
        {
            key: value
            for key, value in entry.items()
            if key != "requests" or not all(mine & set(value) for mine in names)
        }
        for entry in entries
    ]


def _node_selector(facts: Facts, claim: str, chosen: list[Choice]) -> Json | None:
    merged: Json = {"matchExpressions": [], "matchFields": []}
    for candidate in (choice.candidate for choice in chosen):
        spec = candidate.slice.spec
        where = candidate.device if spec.per_device_node_selection else spec
        if where.node_name is not None or candidate.device.binds_to_node:
            only = {"key": "metadata.name", "operator": "In", "values": [facts.node.name]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        terms = where.node_selector.to_wire().get("nodeSelectorTerms", []) if where.node_selector is not None else []
        if len(terms) > 1:
            raise Fatal(
                f"create NodeSelector for claim {claim}: unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for kind, requirements in ((kind, term.get(kind, ())) for term in terms for kind in merged):
            for new in requirements:
                if not any(_same(new, present) for present in merged[kind]):
                    merged[kind].append(new)
    return {"nodeSelectorTerms": [merged]} if any(merged.values()) else None


def _same(present: Json, other: Json) -> bool:
    keys = ("key", "operator")
    return all(present.get(key) == other.get(key) for key in keys) and set(present.get("values", ())) == set(
        other.get("values", ())
    )
