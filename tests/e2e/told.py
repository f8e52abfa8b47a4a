"""What is told about a VMI, as text that is the same in every run: what the cluster made up is replaced by what it
stands for."""

from __future__ import annotations

import json
from typing import Any

import yaml
from lxml import etree

from devtools.deployed.worlds import World
from virt_dra.api.integration import standalone

Json = dict[str, Any]


def told(world: World, vmi: Json, pod: Json) -> str:
    """Warnings at its creation, its launcher pod as far as it concerns devices, its devices object, annotation, Events
    and domain."""
    name = vmi["metadata"]["name"]
    devices = world.find("virtualmachineinstancedevices", name)
    document: Json = {"warnings": list(world.warnings.get(name, ())), "pod": _pod(pod)}
    if devices is not None:
        document["devices"] = _without_times(devices["status"])
        table = world.table("virtualmachineinstancedevices", name)
        document["columns"] = {column: cell for column, cell in table.items() if column not in ("Name", "Age")}
    document["annotation"] = vmi["metadata"].get("annotations", {}).get("virt-dra.io/device-status")
    document["events"] = [" ".join(event) for event in world.events(name)]
    if world.kubevirt is None:
        document["status"] = _without_times(vmi["status"])
        document["hostdevs"] = hostdevs(domain_of(world, pod))
    else:
        conversion = world.kubevirt.domains.get((world.namespace, name))
        document["hostdevs"] = [device.xml for device in conversion.hostdevs] if conversion is not None else []
    text = json.dumps(document)
    for found, shown in replacements(world, vmi, pod):
        text = text.replace(found, shown)
    # Whether the pod was bound already when its claims were allocated is kube-scheduler's own race.
    text = text.replace("DevicesResolved on node <node>: ", "DevicesResolved ")
    return yaml.safe_dump(json.loads(text), sort_keys=False, width=140, allow_unicode=True)


def domain_of(world: World, pod: Json) -> str:
    """What the launcher of a pod gave to libvirt; "" before."""
    container = world.kubelet.container(pod["metadata"]["uid"])
    return "" if container is None else container.text(f"{standalone.RUN_DIRECTORY}/{standalone.DOMAIN_FILE}")


def hostdevs(xml: str) -> list[str]:
    hostdevs = etree.fromstring(xml).iter("hostdev") if xml else ()
    return [
        etree.tostring(hostdev, encoding="unicode", with_tail=False).replace("\n", "").replace("  ", "")
        for hostdev in hostdevs
    ]


def replacements(world: World, vmi: Json, pod: Json) -> list[tuple[str, str]]:
    """Longest first, so that no name is replaced in the middle of another."""
    known = {
        pod["metadata"]["uid"]: "<uid of the pod>",
        pod["metadata"]["name"]: "<pod>",
        vmi["metadata"]["uid"]: "<uid of the VMI>",
        world.node: "<node>",
        world.namespace: "<namespace>",
    }
    for status in pod.get("status", {}).get("resourceClaimStatuses", ()):
        claim = status["resourceClaimName"]
        known[claim] = f"<claim of {status['name']}>"
        known[world.get("resourceclaims", claim)["metadata"]["uid"]] = f"<uid of the claim of {status['name']}>"
    for entry in pod["spec"].get("resourceClaims", ()):
        direct = entry.get("resourceClaimName")
        if direct:
            known[world.get("resourceclaims", direct)["metadata"]["uid"]] = f"<uid of {direct}>"
    return sorted(known.items(), key=lambda item: -len(item[0]))


def _pod(pod: Json) -> Json:
    compute = next(container for container in pod["spec"]["containers"] if container["name"] == "compute")
    annotations = pod["metadata"].get("annotations", {})
    shown: Json = {
        "annotations": {key: value for key, value in sorted(annotations.items()) if "virt-dra.io" in key},
        "resourceClaims": pod["spec"].get("resourceClaims", []),
        "resources": compute.get("resources", {}),
    }
    for name, found in (
        ("env", [variable for variable in compute.get("env", ()) if variable["name"] != "POD_NAME"]),
        ("mounts", compute.get("volumeMounts", [])),
        ("volumes", pod["spec"].get("volumes", [])),
        ("initContainers", pod["spec"].get("initContainers", [])),
    ):
        if found:
            shown[name] = found
    return shown


def _without_times(status: Json) -> Json:
    """Nor the phases that were passed through: how many of them are seen is a matter of luck."""
    kept = _without(status, "phaseTransitionTimestamps")
    return {
        **kept,
        "conditions": [_without(condition, "lastTransitionTime") for condition in status.get("conditions", ())],
    }


def _without(given: Json, name: str) -> Json:
    return {key: value for key, value in given.items() if key != name}
