"""The pod webhook: the JSON patch that a launcher pod needs for the integration path of its devices (K-11, decision
0012). Pure.

    metadata-shim   a downwardAPI volume a pair (claim, request), mounted in the container compute where KubeVirt
                    looks for metadata
    device-plugin   claims in place of extended resources, a variable filled from an annotation, an init container
                    that waits for it
    native, none    nothing; for none a warning says what to do

The patch only adds what the pod lacks, so that it is idempotent, whichever webhooks are called before or after. A pod
in which a name of virt-dra is used for something else (a volume, a variable, a container, a claim entry) is refused:
the VM could not boot, and its events show why. A directory at which another volume is mounted is left alone, with a
warning.

Annotations of virt-dra that a new pod already has are removed: virt-controller copies them from VMIs, which users write
(K-4.2).

A pod whose path can't be chosen yet is refused (:mod:`webhooks.launcher_pod.refusals`); virt-controller retries it.

If the caller isn't verified (:attr:`Knowledge.verified`), it must know the VMI's uid, as all users do who may read its
namespace. Then paths only depend on the drivers of claims that this VMI names, and messages contain no driver and no
class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from virt_dra.api.core_v1 import Container, Pod, PodResourceClaim
from virt_dra.api.go_text import visible
from virt_dra.api.integration import paths
from virt_dra.api.integration.device_claims import AssignedDevice, assign, pod_claims, read_device_claims
from virt_dra.api.integration.paths import ClaimRequestPair, PathDecision
from virt_dra.api.integration.record import Integration
from virt_dra.api.keeping.claims import kept_claim_name, kept_entries
from virt_dra.api.kubevirt_v1 import GROUP, LAUNCHER, LAUNCHER_LABEL, VirtualMachineInstance
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import OwnerReference
from virt_dra.api.reading.json_annotations import AnnotationError, joined
from virt_dra.api.resource_v1 import ResourceClaim
from virt_dra.api.wire import Json
from webhooks.knowledge import Knowledge, LauncherSettings, RequestDrivers
from webhooks.launcher_pod.lost_requests import loses_requests, lost_requests
from webhooks.launcher_pod.refusals import refusals
from webhooks.launcher_pod.volumes import annotation_reference, downward_volume, is_downward_volume, refers_to
from webhooks.patch import Patch
from webhooks.verdict import DUPLICATE, INVALID, NOT_FOUND, AdmissionCause, Verdict

COMPUTE: Final = "compute"
"""The name of the container that runs QEMU. Its position varies (K-4.3)."""
EPHEMERAL_ANNOTATION: Final = "kubevirt.io/ephemeral-provisioning"
"""The annotation of a placeholder pod, which never starts a VM (K-5.1)."""

MAX_PAIRS: Final = 128
"""Limit of the requests of compute if any of them gets a volume. Users can name thousands."""

_WITHOUT_RECORD: Final = frozenset({paths.DRIVER_WRITES_METADATA, paths.MOUNTED_BY_OTHERS, paths.BAD_NAME})
"""Reasons of decisions after which nothing has to be filled in, or found out later."""

_WAIT: Final = 'until [ -s "$0" ]; do sleep 1; done'
_WAIT_RESOURCES: Final[Json] = {"cpu": "100m", "memory": "64Mi"}
"""Requests and limits, so that a guaranteed pod stays one. An init container's only count if they exceed the
containers' (K-4.9)."""
_IDENTITY: Final = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile")
"""The fields of securityContext that the init container copies from compute."""


def is_launcher(raw: Json) -> bool:
    """True for a launcher pod that will start a VM. ``raw``: any JSON."""
    metadata = raw.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not isinstance(labels, dict) or labels.get(LAUNCHER_LABEL) != LAUNCHER:
        return False
    return not (isinstance(annotations, dict) and EPHEMERAL_ANNOTATION in annotations)


def owner_of(pod: Pod) -> OwnerReference | None:
    """The reference to the VMI of a launcher pod (K-4.1)."""
    owner = pod.metadata.controller_owner
    if owner is None or owner.kind != VirtualMachineInstance.KIND or owner.api_version.partition("/")[0] != GROUP:
        return None
    return owner


def mutate(raw: Json, namespace: str, knowledge: Knowledge) -> Verdict:
    """The verdict on creating a launcher pod, with its patch.

    ``namespace``: of the request. Pods without a VMI as owner aren't changed. Raises WireError if the pod is invalid.
    """
    pod = Pod.from_wire(raw)
    owner = owner_of(pod)
    if owner is None:
        return Verdict(allowed=True)
    index = next((index for index, container in enumerate(pod.spec.containers) if container.name == COMPUTE), None)
    if index is None:
        warning = f"spec.containers: a launcher pod without a container {COMPUTE} is left as it is"
        return Verdict(allowed=True, warnings=(warning,))
    try:
        return _Mutation(pod, raw, index, namespace, owner, knowledge).verdict()
    except AnnotationError as error:
        # The message also names the annotation, since an event shows only the message of a cause.
        problems = ((visible(joined(error.field, path)), visible(message)) for path, message in error.problems)
        causes = (AdmissionCause(INVALID, f"{place}: {message}", place) for place, message in problems)
        return Verdict(False, tuple(causes))
    except paths.InvalidPathChoice as error:
        return Verdict(False, (AdmissionCause(INVALID, visible(str(error)), str(error).partition(": ")[0]),))


@dataclass
class _Mutation:
    """One review: the submitted pod, and the patch as it is built step by step.

    ``index``: of the container compute. ``added``: the requests of claims that are added to it.
    """

    pod: Pod
    raw: Json
    index: int
    namespace: str
    owner: OwnerReference
    knowledge: Knowledge
    patch: Patch = field(default_factory=Patch)
    causes: list[AdmissionCause] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    volumes: list[Json] = field(default_factory=list)
    mounts: list[Json] = field(default_factory=list)
    added: list[ClaimRequestPair] = field(default_factory=list)

    def verdict(self) -> Verdict:
        """The verdict on the pod. Raises AnnotationError and BadWish."""
        wish = paths.chosen_path(self.pod.metadata.annotations)
        devices = self._assigned()
        claims = {entry.name: entry for entry in self.pod.spec.resource_claims}
        if devices:
            claims = self._with_claims(claims, devices)
        self._add_lost_requests(claims)
        self._use_claims({device.resource for device in devices})
        decisions = self._decisions(claims, {device.entry.name for device in devices}, wish)
        shims = [decision.pair for decision in decisions if decision.path == paths.METADATA_SHIM]
        if shims and len(decisions) > MAX_PAIRS:
            message = (
                f"{len(decisions)} requests are used, of which virt-dra would have to "
                f"serve some; no VM has more than {MAX_PAIRS} devices"
            )
            return Verdict(False, (AdmissionCause(INVALID, message, f"{self._field}.resources.claims"),))
        for pair in shims:
            self._add_metadata(claims[pair.claim], pair)
        if devices:
            self._add_variables(devices)
            self._add_wait()
        # A pod without a record counts as one whose drivers write metadata files, so every other pod has one.
        doubtful = any(decision.reason not in _WITHOUT_RECORD for decision in decisions)
        record = None
        if devices or (doubtful and len(decisions) <= MAX_PAIRS):
            record = Integration.from_decisions(decisions, devices, paths.layout_of(self.version)).to_annotation()
        self._annotate(record)
        self.patch.append(("spec", "volumes"), len(self.pod.spec.volumes), self.volumes)
        self.patch.append((*self._at, "volumeMounts"), len(self.compute.volume_mounts), self.mounts)
        if self.causes:
            return Verdict(False, tuple(self.causes), tuple(self.warnings))
        return Verdict(True, warnings=tuple(self.warnings), patch=self.patch.operations)

    @property
    def compute(self) -> Container:
        return self.pod.spec.containers[self.index]

    @property
    def version(self) -> KubeVirtVersion:
        return self.knowledge.gates.version

    @property
    def _at(self) -> tuple[str | int, ...]:
        return "spec", "containers", self.index

    @property
    def _field(self) -> str:
        return f"spec.containers[{self.index}]"

    # --- which pairs, which path ---

    def _pairs(self, claims: Mapping[str, PodResourceClaim]) -> Mapping[ClaimRequestPair, str]:
        """The requests of the pod's claims that compute uses, with their fields. Kubernetes refuses others (K-3.2)."""
        requests: dict[ClaimRequestPair, str] = {}
        for index, reference in enumerate(self.references):
            if reference.claim in claims:
                requests.setdefault(reference, f"{self._field}.resources.claims[{index}]")
        return requests

    @property
    def references(self) -> list[ClaimRequestPair]:
        uses = self.compute.resources.claims
        return [*(ClaimRequestPair(use.name, use.request or "") for use in uses), *self.added]

    def _decisions(
        self, claims: Mapping[str, PodResourceClaim], ours: set[str], wish: paths.PathChoice
    ) -> list[PathDecision]:
        pairs = self._pairs(claims)
        asked = [pair for pair in pairs if pair.claim not in ours and pair.request]
        serving = self._serving(claims, asked)
        writers, version = self.knowledge.writers, self.version
        decisions: list[PathDecision] = []
        new: list[tuple[str, PathDecision]] = []
        warnings: list[str] = []
        for pair, place in pairs.items():
            entry, served = claims[pair.claim], serving.get(pair)
            drivers = served.drivers if served else ()
            decision = paths.decide(
                entry, pair.request, version, wish, drivers, writers, in_device_claims=pair.claim in ours
            )
            # If virt-dra's volume is mounted, the path was decided in an earlier call, whatever drivers are known now.
            decided_before = decision.reason in paths.BY_DRIVERS and self._has_metadata(entry, pair)
            if decided_before and decision.path == paths.NATIVE:
                decision = paths.decide(entry, pair.request, version, paths.METADATA_SHIM, drivers, writers)
            if decision.path == paths.METADATA_SHIM:
                decision = self._unless_mounted(entry, decision)
            if not decided_before:
                new.append((place, decision))
            unknown = decision.reason in _NOT_KNOWN_TO_WRITE and (
                not served or not served.drivers or not served.complete
            )
            reveals_drivers = bool(drivers) or decision.reason in paths.BY_DRIVERS
            if (decision.warning or unknown) and (self.knowledge.verified or not reveals_drivers):
                by_version = _BY_VERSION.format(decision.path, version) if unknown else ""
                warnings.append(f"{place}: {decision.message}{by_version}")
            decisions.append(decision)
        by_drivers = any(decision.reason in paths.BY_DRIVERS for _, decision in new)
        if by_drivers and not self.knowledge.verified and self._vmi is None:
            self._unknown_vmi("whose claims decide how the pod is made")
        refused = refusals(new, serving, self._vmi, self.knowledge)
        self.causes += refused
        self.warnings += () if refused else warnings
        return decisions

    def _serving(
        self, claims: Mapping[str, PodResourceClaim], pairs: Iterable[ClaimRequestPair]
    ) -> Mapping[ClaimRequestPair, RequestDrivers]:
        """The drivers of the pairs, as far as they may be revealed: see the module."""
        entries, asked = tuple(claims.values()), tuple(pairs)
        if not self.knowledge.verified:
            of_vmi = self._vmi.spec.resource_claims if self._vmi is not None else ()
            named = {(entry.name, _source(entry)) for entry in of_vmi}
            entries = tuple(entry for entry in entries if (entry.name, _source(entry)) in named)
            asked = tuple(pair for pair in asked if any(pair.claim == entry.name for entry in entries))
        if not asked:
            return {}
        serving = self.knowledge.drivers(self.namespace, entries, asked)
        to_come = self._claims_to_come(serving, entries)
        if not to_come:
            return serving
        entries = tuple(to_come.get(entry.name, entry) for entry in entries)
        return self.knowledge.drivers(self.namespace, entries, asked)

    def _claims_to_come(
        self, serving: Mapping[ClaimRequestPair, RequestDrivers], entries: Iterable[PodResourceClaim]
    ) -> dict[str, PodResourceClaim]:
        """The entries whose claim the VM keeps and the keeper hasn't made yet, by name, with the template that it will
        make the claim from. The pod waits for the claim (P-7), and isn't refused, since virt-controller retries ever
        more seldom."""
        lacking = {
            pair.claim
            for pair, served in serving.items()
            if any(missing.kind == ResourceClaim.KIND for missing in served.missing)
        }
        templates = kept_entries(self._vmi) if lacking and self._vmi is not None else {}
        return {
            entry.name: entry.without("resource_claim_name").with_(resource_claim_template_name=templates[entry.name])
            for entry in entries
            if entry.name in lacking
            and entry.name in templates
            and entry.resource_claim_name == kept_claim_name(self.owner.name, entry.name)
        }

    # --- metadata-shim ---

    def _directory(self, entry: PodResourceClaim, pair: ClaimRequestPair) -> str:
        return paths.metadata_directory(entry, pair.request, paths.layout_of(self.version))

    def _has_metadata(self, entry: PodResourceClaim, pair: ClaimRequestPair) -> bool:
        name, directory = paths.metadata_volume(pair.claim, pair.request), self._directory(entry, pair)
        volume = next((volume for volume in self.pod.spec.volumes if volume.name == name), None)
        mounts = (mount for mount in self.compute.volume_mounts if mount.name == name)
        if volume is None or not any(_same_path(mount.mount_path, directory) for mount in mounts):
            return False
        return is_downward_volume(volume, paths.SHIM_FILE, paths.metadata_annotation(pair.claim, pair.request))

    def _unless_mounted(self, entry: PodResourceClaim, decision: PathDecision) -> PathDecision:
        pair = decision.pair
        directory, own = self._directory(entry, pair), paths.metadata_volume(pair.claim, pair.request)
        there = (mount.name for mount in self.compute.volume_mounts if _same_path(mount.mount_path, directory))
        others = [name for name in there if name != own]
        if not others:
            return decision
        message = f"volume {others[0][:63]!r} is mounted at {directory} already; it is left to supply the metadata"
        return PathDecision(pair, paths.NATIVE, paths.MOUNTED_BY_OTHERS, message, warning=True)

    def _add_metadata(self, entry: PodResourceClaim, pair: ClaimRequestPair) -> None:
        if self._has_metadata(entry, pair):
            return
        name = paths.metadata_volume(pair.claim, pair.request)
        if self._add_volume(name, paths.SHIM_FILE, paths.metadata_annotation(pair.claim, pair.request)):
            self.mounts.append({"name": name, "mountPath": self._directory(entry, pair), "readOnly": True})

    def _add_volume(self, name: str, file: str, annotation: str) -> bool:
        """Add a volume. Returns False if its name is in use for another volume."""
        for index, volume in enumerate(self.pod.spec.volumes):
            if volume.name == name:
                if is_downward_volume(volume, file, annotation):
                    return True
                message = f"a volume is called {name!r}, which is virt-dra's for its own volume"
                self._clash(f"spec.volumes[{index}].name", message)
                return False
        self.volumes.append(downward_volume(name, file, annotation))
        return True

    def _clash(self, place: str, message: str) -> None:
        self.causes.append(AdmissionCause(DUPLICATE, f"{message}; call it something else", place))

    # --- device-plugin ---

    def _assigned(self) -> tuple[AssignedDevice, ...]:
        """The devices of the annotation with their claims. Raises AnnotationError."""
        wanted = read_device_claims(self.pod.metadata.annotations)
        if not wanted:
            return ()
        if self._vmi is None:
            self._unknown_vmi(f"whose devices {paths.DEVICE_CLAIMS_ANNOTATION} names")
            return ()
        return assign(self._vmi, wanted)

    @property
    def _vmi(self) -> VirtualMachineInstance | None:
        """The pod's VMI; None if the informer hasn't received it yet."""
        vmi = self.knowledge.vmi(self.namespace, self.owner.name)
        proven = self.knowledge.verified or bool(self.owner.uid)  # objects of files have no uid
        return vmi if vmi is not None and vmi.metadata.uid == self.owner.uid and proven else None

    def _unknown_vmi(self, why: str) -> None:
        message = (
            f"VirtualMachineInstance {self.owner.name[:253]!r}, {why}, is not known to this webhook yet; the pod is to "
            "be created again in a moment"
        )
        self.causes.append(AdmissionCause(NOT_FOUND, message, "metadata.ownerReferences"))

    def _with_claims(
        self, have: Mapping[str, PodResourceClaim], devices: Iterable[AssignedDevice]
    ) -> dict[str, PodResourceClaim]:
        """Replace extended resources by claims. Returns all claims of the patched pod."""
        devices = tuple(devices)
        new: list[PodResourceClaim] = []
        for entry in pod_claims(devices):
            existing = have.get(entry.name)
            if existing is None:
                new.append(entry)
            elif _source(existing) != _source(entry):
                index = [other.name for other in self.pod.spec.resource_claims].index(entry.name)
                message = (
                    f"a claim is called {entry.name!r}, which is virt-dra's for a "
                    f"device of {paths.DEVICE_CLAIMS_ANNOTATION}"
                )
                self._clash(f"spec.resourceClaims[{index}].name", message)
        self.patch.append(
            ("spec", "resourceClaims"), len(self.pod.spec.resource_claims), [entry.to_wire() for entry in new]
        )
        uses = dict.fromkeys(ClaimRequestPair(device.entry.name, device.request) for device in devices)
        there_already = self.references
        whole = {pair.claim for pair in there_already if not pair.request}
        self.added = [pair for pair in uses if pair not in there_already and pair.claim not in whole]
        return {**have, **{entry.name: entry for entry in new}}

    # --- what compute uses ---

    def _add_lost_requests(self, claims: Mapping[str, PodResourceClaim]) -> None:
        used = [reference for reference in self.references if reference.claim in claims]
        if not loses_requests(self.version) or not used:
            return
        if self._vmi is not None:
            self.added += lost_requests(self._vmi, self.knowledge.gates, used)
        elif self.knowledge.now is not None:
            self._unknown_vmi(f"of which KubeVirt {self.version} may have left requests out of the pod")

    def _use_claims(self, resources: Iterable[str]) -> None:
        """Add references to the requests of :attr:`added`, and remove the extended ``resources``."""
        raw = self.raw["spec"]["containers"][self.index].get("resources")
        references: list[Json] = [{"name": pair.claim, "request": pair.request} for pair in self.added]
        if not isinstance(raw, dict) or not raw:
            if references:
                self.patch.put((*self._at, "resources"), {"claims": references})
            return
        for name in ("limits", "requests"):
            given = raw.get(name)
            for resource in sorted(given.keys() & set(resources)) if isinstance(given, dict) else ():
                self.patch.remove((*self._at, "resources", name, resource))
        self.patch.append((*self._at, "resources", "claims"), len(self.compute.resources.claims), references)

    def _add_variables(self, devices: Iterable[AssignedDevice]) -> None:
        new: list[Json] = []
        for variable in dict.fromkeys(name for device in devices for name in device.variables):
            annotation = paths.address_annotation(variable)
            existing = [(index, env_var) for index, env_var in enumerate(self.compute.env) if env_var.name == variable]
            if not existing:
                new.append({"name": variable, "valueFrom": {"fieldRef": annotation_reference(annotation)}})
            elif not refers_to((existing[-1][1].value_from or {}).get("fieldRef"), annotation):
                message = (
                    f"variable {variable} is set by something else, so KubeVirt would "
                    "not see the addresses of the claims' devices"
                )
                field = f"{self._field}.env[{existing[-1][0]}].name"
                self.causes.append(AdmissionCause(DUPLICATE, f"{message}; remove it", field))
        self.patch.append((*self._at, "env"), len(self.compute.env), new)

    def _add_wait(self) -> None:
        """Add the init container that waits for the annotation, since variables are fixed when a container starts
        (K-11.2)."""
        if not self._add_volume(paths.WAIT_VOLUME, paths.WAIT_FILE, paths.ADDRESSES_READY_ANNOTATION):
            return
        ours = wait_container(self.compute, self.knowledge.launcher)
        for index, container in enumerate(self.pod.spec.init_containers):
            if container.name == paths.WAIT_CONTAINER:
                if container.command != tuple(ours["command"]):
                    message = f"an init container is called {container.name!r}, which is virt-dra's for its own"
                    self._clash(f"spec.initContainers[{index}].name", message)
                return
        self.patch.append(("spec", "initContainers"), len(self.pod.spec.init_containers), [ours])

    # --- annotations ---

    def _annotate(self, integration: str | None) -> None:
        """Set the record of the integration, and remove annotations that only virt-dra may set."""
        have = self.pod.metadata.annotations
        for key in paths.own_pod_annotations(have):
            if key != paths.INTEGRATION_ANNOTATION or integration is None:
                self.patch.remove(("metadata", "annotations", key))
        if integration is None or have.get(paths.INTEGRATION_ANNOTATION) == integration:
            return
        if have:
            self.patch.put(("metadata", "annotations", paths.INTEGRATION_ANNOTATION), integration)
        else:
            self.patch.put(("metadata", "annotations"), {paths.INTEGRATION_ANNOTATION: integration})


_NOT_KNOWN_TO_WRITE: Final = (paths.DRIVER_WRITES_NO_METADATA, paths.DRIVER_UNKNOWN)
_BY_VERSION: Final = ", so path {} is taken, by the version of KubeVirt ({}) alone"


def wait_container(compute: Container, settings: LauncherSettings) -> Json:
    """The init container that ends once the operator has written the addresses. Its image: as configured, else
    compute's own."""
    container: Json = {
        "name": paths.WAIT_CONTAINER,
        "image": settings.wait_image or compute.image or "",
        "command": ["/bin/sh", "-c", _WAIT, f"{paths.WAIT_DIRECTORY}/{paths.WAIT_FILE}"],
        "resources": {"limits": dict(_WAIT_RESOURCES), "requests": dict(_WAIT_RESOURCES)},
        "volumeMounts": [{"name": paths.WAIT_VOLUME, "mountPath": paths.WAIT_DIRECTORY, "readOnly": True}],
        "securityContext": {
            **{key: value for key, value in (compute.security_context or {}).items() if key in _IDENTITY},
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    policy = (compute.model_extra or {}).get("imagePullPolicy")
    if policy and not settings.wait_image:
        container["imagePullPolicy"] = policy
    return container


def _source(entry: PodResourceClaim) -> tuple[str, str]:
    return entry.resource_claim_name or "", entry.resource_claim_template_name or ""


def _same_path(path: str, other: str) -> bool:
    return path.rstrip("/") == other.rstrip("/")
