"""Random objects and claim statuses: what a real API server answers, and what the embedded cluster does. See README.md.

Writes are tried out (``dryRun``), so nothing has to be cleaned up. Printed are the answers that differ; the end is 1 if
there are any that no rule of :func:`explained` knows.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from random import Random
from typing import Any

from devtools.upstream.apiserver.random_changes import changed
from devtools.upstream.apiserver.record import Server, path_of
from devtools.upstream.apiserver.replay import Servers, answer, comparable
from devtools.upstream.apiserver.scenarios import scenarios
from devtools.upstream.apiserver.steps import NOW, Json, normalized
from virt_dra.api.meta import parse_time
from virt_dra.api.reading.scheme import all_kinds, read_object
from virt_dra.api.wire import Wire, WireError
from virt_dra.cluster.kinds import resource_of
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.memory.patches import merged

DRA = "resource.k8s.io/v1"
PLURALS = {kind.KIND: resource_of(kind).plural for kind in all_kinds()}


def in_memory(stored: Json | None) -> MemoryCluster:
    cluster = MemoryCluster.deterministic(parse_time(NOW), admission=Servers("answers"))
    if stored is not None:
        cluster.load([read_object(stored)])
    return cluster


def reply(server: Server, method: str, path: str, body: Json) -> Json:
    code, obj = server.ask(method, f"{path}?dryRun=All", body)
    if code < 400:
        return {"code": code, "object": obj}
    causes = [
        [cause.get("field", ""), cause.get("reason", ""), cause.get("message", "")]
        for cause in obj.get("details", {}).get("causes", ())
    ]
    return {"code": code, "reason": obj.get("reason", ""), "message": obj.get("message", ""), "causes": causes}


def difference(step: Json, server: Json, memory: Json) -> str:
    wanted, given = comparable(step, normalized([server])[0], normalized([memory])[0])
    for reported in (wanted, given):
        if "object" in reported:
            reported["object"] = _without_zeros({**reported["object"], "metadata": {}})
        reported["causes"] = [
            [field, reason, text.replace("value: []: ", "value: null: ")]
            for field, reason, text in reported.get("causes", ())
        ]
    if wanted == given or explained(wanted, given):
        return ""
    return (
        f"\n  server {json.dumps(wanted, sort_keys=True)[:2000]}\n  memory {json.dumps(given, sort_keys=True)[:2000]}"
    )


def _without_zeros(value: Any) -> Any:
    """A generation of 0 is written by the server where memory keeps it absent, or the other way round."""
    if isinstance(value, dict):
        kept = {key: _without_zeros(entry) for key, entry in value.items()}
        return {
            key: entry
            for key, entry in kept.items()
            if not (key in ("generation", "observedGeneration") and entry == 0)
        }
    return [_without_zeros(entry) for entry in value] if isinstance(value, list) else value


def explained(server: Json, memory: Json) -> bool:
    """What docs/decisions/0007-embedded-cluster.md tells: times are validated, AC-5, AC-21a, structs of v1beta1, nodes
    aren't asked."""
    if server["code"] == 400 and "parsing time" in server["message"]:
        return True
    if server["code"] == 403 and "node" in server["message"]:
        return True  # C-13.13
    ours = [cause for cause in memory["causes"] if cause not in server["causes"]]
    theirs = [cause for cause in server["causes"] if cause not in memory["causes"]]
    uncorrected = [cause for cause in ours if not _is_correction(*cause)]
    if len(uncorrected) < len(ours) and not uncorrected and not theirs:
        return True
    return bool(ours) and all(cause[1] == "FieldValueDuplicate" for cause in (*ours, *theirs))


def _is_correction(field: str, reason: str, message: str) -> bool:
    """AC-21a: two terms in a device's selector; AC-5: both kinds of constraint."""
    terms = (
        field.startswith("spec.devices[")
        and field.endswith(".nodeSelector.nodeSelectorTerms")
        and reason == "FieldValueInvalid"
    )
    return terms or '"{matchAttribute, distinctAttribute}"' in message


def knows_all(body: Json) -> bool:
    """Whether no field of the object is unknown: those survive here, a server prunes them."""
    try:
        return not _has_unknown(read_object(body))
    except WireError:
        return True


def _has_unknown(value: object) -> bool:
    if isinstance(value, Wire):
        return bool(value.model_extra) or any(_has_unknown(getattr(value, name)) for name in type(value).model_fields)
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return any(map(_has_unknown, entries))


async def compare(server: Server, rng: Random, cases: int) -> int:
    """How many answers differ without an explanation."""
    steps = dict(scenarios())
    bodies = [steps[name][0]["object"] for name in steps if name.startswith("version/full-")]
    claim = merged(steps["version/full-claim-v1"][0]["object"], {"metadata": {"name": "compared"}})
    status = steps["version/status-v1"][2]["change"]["status"]
    server.forget()
    stored = server.ask("POST", path_of(DRA, "resourceclaims", "default"), claim)[1]
    differing = 0
    for case in range(cases):
        if rng.random() < 0.3:
            body = changed({**stored, "status": status}, "status", rng)
            step, before = {"verb": "updateStatus", "object": body}, stored
            reported = (
                reply(server, "PUT", path_of(DRA, "resourceclaims", "default", "compared", "status"), body)
                if knows_all(body)
                else None
            )
        else:
            body = changed(rng.choice(bodies), "spec", rng)
            namespace = "default" if body["kind"] in ("ResourceClaim", "ResourceClaimTemplate") else ""
            body["metadata"] = {"name": "x", **({"namespace": namespace} if namespace else {})}
            step, before = {"verb": "create", "object": body}, None
            path = path_of(body["apiVersion"], PLURALS[body["kind"]], namespace)
            reported = reply(server, "POST", path, body) if knows_all(body) else None
        fault = difference(step, reported, await answer(in_memory(before), step)) if reported is not None else ""
        if fault:
            differing += 1
            sys.stdout.write(f"case {case}: {json.dumps(body.get('status' if before else 'spec'))[:1500]}{fault}\n")
    server.forget()
    return differing


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--port", type=int, default=16444, help="of the server with every gate; see servers.sh")
    options.add_argument("--seed", type=int, default=Random().randrange(2**32))
    options.add_argument("--cases", type=int, default=5000)
    chosen = options.parse_args()
    differing = asyncio.run(compare(Server(chosen.port), Random(chosen.seed), chosen.cases))
    sys.stdout.write(f"{chosen.cases} cases, seed {chosen.seed}: {differing} unexplained differences\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
