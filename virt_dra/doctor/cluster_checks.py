"""Checks of the cluster itself: Kubernetes, KubeVirt, drivers, classes. Pure: facts in, findings out."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from virt_dra.api.counting import counted
from virt_dra.api.integration.attribute_keys import Unusable, addresses
from virt_dra.api.integration.check_findings import CheckFinding, CheckSubject
from virt_dra.api.integration.known_drivers import (
    ALWAYS_WRITE,
    KNOWN_DRIVERS,
    WRITES_METADATA_ANNOTATION,
    metadata_writers,
)
from virt_dra.api.kubevirt_v1 import KubeVirt
from virt_dra.api.kubevirt_versions import (
    GPUS_WITH_DRA,
    HOST_DEVICES,
    HOST_DEVICES_WITH_DRA,
    V1_6_0,
    V1_8_0,
    V1_8_3,
    V1_9_0,
    Gates,
    KubeVirtVersion,
    ObservedVersion,
    listed_twice,
)
from virt_dra.api.meta import ObjectT
from virt_dra.api.pool_generations import generation_of, newest_generation
from virt_dra.api.resource_v1 import DeviceClass, ResourceSlice
from virt_dra.api.wire import Json, WireError
from virt_dra.doctor.facts import ClusterFacts, Unknown, unread
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, is_ours
from virt_dra.installation.survey import VMS
from webhooks.lint import DeviceInventory

RESOURCE: Final = "resource.k8s.io"
_DRA = re.compile(r"^(DRA|DynamicResourceAllocation|ResourceHealthStatus)")


def kubernetes(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on the Kubernetes version and the served versions of resource.k8s.io."""
    subject = CheckSubject("kubernetes", "API server")
    if isinstance(facts.version, Unknown) or isinstance(facts.api_versions, Unknown):
        yield unread(subject, facts.version, facts.api_versions)
        return
    served = sorted(of.partition("/")[2] for of in facts.api_versions if of.startswith(f"{RESOURCE}/"))
    if f"{RESOURCE}/v1" not in facts.api_versions:
        message = f"Kubernetes {facts.version} serves {', '.join(served) or 'nothing'} of {RESOURCE}, but not v1"
        yield subject.error(message, "upgrade to Kubernetes 1.34 or newer, or serve it: --runtime-config")
    else:
        yield subject.ok(f"Kubernetes {facts.version} serves {', '.join(served)} of {RESOURCE}")


def features(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on the API server's feature gates for dynamic resource allocation."""
    subject = CheckSubject("feature-gates", "API server")
    if isinstance(facts.features, Unknown):
        message = f"the API server's feature gates can't be read: {facts.features.why}"
        yield subject.info(message, "reading /metrics needs a permission of its own; virt-dra doesn't need it")
        return
    dra_gates = {gate: on for gate, on in facts.features.items() if _DRA.match(gate)}
    if dra_gates.get("DynamicResourceAllocation") is False:
        advice = "remove it from --feature-gates of every component; no pod with claims can run without it"
        yield subject.error("the gate DynamicResourceAllocation is off", advice)
        return
    on = ", ".join(sorted(gate for gate, enabled in dra_gates.items() if enabled))
    off = ", ".join(sorted(gate for gate, enabled in dra_gates.items() if not enabled))
    message = "; ".join(f"{word}: {names}" for word, names in (("on", on), ("off", off)) if names)
    yield subject.ok(message or "its metrics name no gates of dynamic resource allocation")


def kubevirt(facts: ClusterFacts, named: KubeVirtVersion | None = None) -> Iterator[CheckFinding]:
    """Findings on KubeVirt: that it exists or not, as the overlay needs, and its version and configuration (K-1.11,
    K-1.12).

    ``named``: the user's version, which overrides the KubeVirt object's.
    """
    subject = CheckSubject("kubevirt", "KubeVirt")
    if isinstance(facts.kubevirts, Unknown) or isinstance(facts.crds, Unknown):
        yield unread(subject, facts.kubevirts, facts.crds)
        return
    if not facts.kubevirts:
        yield from _without_kubevirt(facts, facts.crds)
        return
    if facts.overlay == STANDALONE:
        advice = "virt-dra uninstall --delete-vms, then virt-dra install"
        yield subject.error("KubeVirt exists, and virt-dra is installed standalone: the operator does nothing", advice)
    if len(facts.kubevirts) > 1:
        message = f"there are {len(facts.kubevirts)} KubeVirt objects; the first by namespace and name counts"
        yield subject.warning(message, "keep one")
    first = min(facts.kubevirts, key=lambda raw: (raw["metadata"].get("namespace", ""), raw["metadata"]["name"]))
    where = f"KubeVirt {first['metadata'].get('namespace', '')}/{first['metadata']['name']}"
    try:
        yield from _configuration(KubeVirt.from_wire(first), where, named)
    except WireError as error:
        yield CheckSubject("kubevirt", where).error(f"it can't be read: {error}", "correct it")


def _without_kubevirt(facts: ClusterFacts, crds: Mapping[str, Json]) -> Iterator[CheckFinding]:
    subject = CheckSubject("kubevirt", "KubeVirt" if facts.overlay != STANDALONE else "VirtualMachines")
    own = all(name in crds and is_ours(crds[name]) for name in VMS)
    if facts.overlay == BESIDE_KUBEVIRT:
        yield subject.error(
            "there is no KubeVirt object", "install KubeVirt, or use: virt-dra install --overlay standalone"
        )
    elif facts.overlay == STANDALONE and not own:
        yield subject.error(f"{', '.join(VMS)} are not virt-dra's", "virt-dra install --overlay standalone")
    elif facts.overlay == STANDALONE:
        yield subject.ok("there is no KubeVirt: VirtualMachines are virt-dra's own")
    else:
        yield subject.info("there is no KubeVirt object", "before overlay beside-kubevirt, install it")


def _configuration(kubevirt: KubeVirt, where: str, named: KubeVirtVersion | None) -> Iterator[CheckFinding]:
    text = kubevirt.status.observed_kube_virt_version
    if not text and named is None:
        yield CheckSubject("kubevirt-version", where).warning(
            "it isn't deployed yet: status.observedKubeVirtVersion is empty, so neither its version nor its gates are "
            "known",
            "wait until KubeVirt is deployed, or name the version: --kubevirt-version",
        )
        return
    observed = ObservedVersion(text, named, assumed=False) if named is not None else ObservedVersion.parse(text)
    version, configuration = observed.version, kubevirt.spec.configuration
    gates = Gates.configured(version, configuration.developer_configuration)
    yield _version(observed, named is not None, CheckSubject("kubevirt-version", where))
    if version >= V1_6_0:
        for gate, field in ((GPUS_WITH_DRA, "gpus"), (HOST_DEVICES_WITH_DRA, "hostDevices")):
            if gate not in gates:
                message = f"{gate} is off: {field} that name a claim are refused"
                yield CheckSubject("kubevirt-gates", where).warning(message, gates.how_to_enable(gate))
    if HOST_DEVICES not in gates:
        message = f"{HOST_DEVICES} is off: every VM with hostDevices is refused, gpus are not"
        yield CheckSubject("kubevirt-gates", where).info(
            message, f"if hostDevices are to be used, {gates.how_to_enable(HOST_DEVICES)}"
        )
    if version >= V1_8_0 and (twice := listed_twice(configuration.developer_configuration)):
        they, one_of = ("it is", "it") if len(twice) == 1 else ("they are", "each")
        yield CheckSubject("kubevirt-gates", where).warning(
            f"{', '.join(twice)}: in featureGates and in disabledFeatureGates; {they} on, but KubeVirt refuses every "
            "update of this object",
            f"leave {one_of} in one of the two, below spec.configuration.developerConfiguration",
        )
    if configuration.permitted_host_devices is not None and V1_6_0 <= version < V1_9_0:
        renders = f"KubeVirt {version} then renders no pod for hostDevices that name a claim"
        advice = "use gpus entries, remove permittedHostDevices, or upgrade to 1.9"
        yield CheckSubject("permitted-host-devices", where).warning(f"permittedHostDevices is set: {renders}", advice)


def _version(observed: ObservedVersion, named: bool, subject: CheckSubject) -> CheckFinding:
    version = observed.version
    if observed.assumed:
        return subject.warning(str(observed), f"{observed.advice}, here and as an argument of the webhook")
    if version < V1_8_0:
        message = f"KubeVirt {version} takes devices of claims only by the path device-plugin"
        return subject.warning(message, "upgrade to 1.8.3 or newer, or annotate VMs with virt-dra.io/device-claims")
    if version < V1_8_3:
        message = f"KubeVirt {version} reads metadata where no driver writes it; the path metadata-shim serves it"
        return subject.warning(message, "upgrade to 1.8.3 or newer, so that drivers' own files can be used")
    if named:
        return subject.ok(f"judged as KubeVirt {version}, as --kubevirt-version says")
    return subject.ok(str(observed))


def drivers(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on the drivers that publish devices: their addresses, and their integration path."""
    subject = CheckSubject("drivers", "ResourceSlices")
    if isinstance(facts.slices, Unknown):
        yield unread(subject, facts.slices)
        return
    by_driver: defaultdict[str, list[ResourceSlice]] = defaultdict(list)
    for raw in facts.slices:
        try:
            resource_slice = ResourceSlice.from_wire(raw)
        except WireError as error:
            where = f"ResourceSlice {raw['metadata']['name']}"
            yield CheckSubject("drivers", where).warning(f"it can't be read: {error}", "report it to the driver")
            continue
        by_driver[resource_slice.spec.driver].append(resource_slice)
    if not by_driver:
        advice = "install a DRA driver for the devices, and see its log on a node that has some"
        yield subject.warning("no driver publishes devices", advice)
    writers = None if isinstance(facts.classes, Unknown) else metadata_writers(readable(DeviceClass, facts.classes))
    for driver, slices in sorted(by_driver.items()):
        yield from _driver(driver, slices, writers)
    for driver in sorted((writers or ALWAYS_WRITE) - ALWAYS_WRITE - by_driver.keys()):
        yield CheckSubject("drivers", f"driver {driver}").info(
            f"annotation {WRITES_METADATA_ANNOTATION} of a DeviceClass names it, and it publishes no devices",
            "correct the name, unless the driver comes later",
        )


def readable(kind: type[ObjectT], raw_objects: Iterable[Json]) -> Iterator[ObjectT]:
    """The objects that can be read; another check reports the others."""
    for raw in raw_objects:
        with suppress(WireError):
            yield kind.from_wire(raw)


def _driver(driver: str, slices: Sequence[ResourceSlice], writers: frozenset[str] | None) -> Iterator[CheckFinding]:
    """``writers``: drivers that write metadata files; None if the DeviceClasses, which say so, can't be read."""
    subject = CheckSubject("drivers", f"driver {driver}")
    by_pool: dict[str, list[ResourceSlice]] = defaultdict(list)
    for slice_ in slices:
        by_pool[slice_.spec.pool.name].append(slice_)
    newest = {name: newest_generation(members, generation_of) for name, members in sorted(by_pool.items())}
    current = [slice_ for slice_ in slices if generation_of(slice_) == newest[slice_.spec.pool.name][0]]
    resolved = [(of.name, addresses(driver, of.attributes)) for slice_ in current for of in slice_.spec.devices]
    without = [(name, refusal) for name, refusal in resolved if isinstance(refusal, Unusable)]
    summary = f"{counted(len(resolved), 'device')} in {counted(len(newest), 'pool')}"
    traits = KNOWN_DRIVERS.get(driver)
    if traits is not None and traits.unfit:
        yield subject.warning(f"{summary}; {traits.unfit}", "use another driver for VMs")
    elif resolved and len(without) == len(resolved):
        name, refusal = without[0]
        advice = "VMs can't use them; see docs/lint/no-address.md, and --address-keys for a driver with keys of its own"
        yield subject.warning(f"{summary}, none with an address: {name}: {refusal.message}", advice)
    else:
        rest = f", {len(without)} of them without an address" if without else ""
        path = (
            "whether it writes metadata isn't known without DeviceClasses"
            if writers is None
            else "writes metadata (path native)"
            if driver in writers
            else "isn't known to write metadata (metadata-shim)"
        )
        yield subject.ok(f"{summary}{rest}; {path}")
    for name, (generation, seen) in newest.items():
        if any(slice_.spec.pool.resource_slice_count != len(seen) for slice_ in seen):
            announced = seen[0].spec.pool.resource_slice_count
            there = f"{len(seen)} of {announced} slices are there; nothing is allocated from it"
            yield CheckSubject("pools", subject.where).warning(
                f"pool {name}, generation {generation}: {there}", "wait for the driver; restart it if this persists"
            )


def classes(facts: ClusterFacts) -> Iterator[CheckFinding]:
    """Findings on DeviceClasses: whether their selectors match devices."""
    subject = CheckSubject("classes", "DeviceClasses")
    if isinstance(facts.classes, Unknown) or isinstance(facts.slices, Unknown):
        yield unread(subject, facts.classes, facts.slices)
        return
    if not facts.classes:
        advice = "create one, or install a driver that brings one"
        yield subject.warning("there are none, and every claim names one", advice)
        return
    slices = tuple(readable(ResourceSlice, facts.slices))  # drivers() reports the others
    inventory = DeviceInventory.from_slices(slices)
    matching = []
    for raw in facts.classes:
        name = raw["metadata"]["name"]
        one_class = CheckSubject("classes", f"DeviceClass {name}")
        try:
            device_class = DeviceClass.from_wire(raw)
        except WireError as error:
            yield one_class.warning(f"it can't be read: {error}", "correct it")
            continue
        match = inventory.matching(tuple(of.cel.expression for of in device_class.spec.selectors if of.cel is not None))
        if match.fault is not None:
            message = f"a selector fails: {match.fault.message}"
            yield one_class.warning(message, "correct it; see docs/lint/selector-error.md")
        elif not match.devices and inventory.devices:
            message = "no published device matches its selectors"
            yield one_class.info(message, "correct them, unless the driver comes later")
        else:
            matching.append(f"{name} ({len(match.devices)})")
    if matching:
        yield subject.ok(f"with matching devices: {', '.join(matching)}")
