"""The pod and the claims that a question is about: of a VM, VMI, pod or claim of a cluster or of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from virt_dra.api.core_v1 import Container, Pod, PodResourceClaim, PodResourceClaimStatus, PodSpec
from virt_dra.api.counting import listed
from virt_dra.api.defaults import defaulted
from virt_dra.api.go_text import visible
from virt_dra.api.instancetypes.expansion import expand
from virt_dra.api.integration.paths import PATH_ANNOTATION
from virt_dra.api.integration.slice_readers import reads_slices
from virt_dra.api.keeping.keep_policy_v1alpha1 import KeepPolicy
from virt_dra.api.keeping.terms import speaks_of_keeping
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectMeta, ObjectT, TypedObject
from virt_dra.api.nearest import nearest
from virt_dra.api.profiles.alignment import PreferredAlignment
from virt_dra.api.resource_v1 import ResourceClaim, ResourceClaimStatus, ResourceClaimTemplate
from virt_dra.controllers.deletion import TERMINATING, deletion_text
from virt_dra.controllers.loops.claims import generated_claim
from virt_dra.controllers.pods.current_pod import current_pod, owner_uids
from virt_dra.model.claim_nodes import claim_node
from virt_dra.model.cluster import ClusterModel, ModelIndex
from virt_dra.model.feeds.admitted import instancetypes_of
from virt_dra.model.kept import kept_claims
from virt_dra.model.launchers import vm_of_pod
from virt_dra.model.unknown import UnknownFact
from virt_dra.model.usage import devices_held_by, users_of
from virt_dra.scheduling.claim_checks import CLAIM_MISSING, CLAIM_NOT_CREATED, each_once
from virt_dra.scheduling.framework.refusals import Reason
from virt_dra.simulator.explaining.state import Wish

if TYPE_CHECKING:
    from virt_dra.simulator.explaining.admission import AdmissionReview
    from virt_dra.simulator.fit import Fitting
    from webhooks.lint.inputs import KubeVirtAtHand


KINDS: Final[Mapping[str, type[TypedObject]]] = {
    **dict.fromkeys(("vm", "vms", "virtualmachine", "virtualmachines"), VirtualMachine),
    **dict.fromkeys(("vmi", "vmis", "virtualmachineinstance", "virtualmachineinstances"), VirtualMachineInstance),
    **dict.fromkeys(("pod", "pods", "po"), Pod),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), ResourceClaim),
}
"""Words for kinds, as users write them."""
_WORDS: Final[Mapping[type[TypedObject], str]] = {
    VirtualMachine: "VM", VirtualMachineInstance: "VMI", Pod: "pod", ResourceClaim: "claim"
}  # fmt: skip
SHARED_CLAIM: Final = "direct-claim-shared"
"""The reason, and the finding of lint, where a claim that a VM names is another VM's."""
_CLAIM_POD: Final = "claim-alone"


class NoSubject(Exception):
    """What is asked about isn't there, or can't be explained; the text says why and what to do."""


@dataclass(frozen=True)
class AskedSubject:
    """What a question is about. ``key``: with its namespace. ``wish``: what waits, or would wait; ``made``: its pod
    exists; ``ended``: the phase in which its VMI ended. ``node``: where it runs. ``problem``: why there can't be a pod
    with claims."""

    kind: type[TypedObject]
    key: str
    wish: Wish | None = None
    made: bool = False
    ended: str = ""
    node: str = ""
    problem: Reason | None = None
    claims: tuple[ResourceClaim, ...] = ()
    """The claims that it holds, if it has a place."""
    pod: Pod | None = None
    """The pod that has the place."""
    unknown: tuple[UnknownFact, ...] = ()
    """What leaves open whether it starts."""
    preferences: tuple[PreferredAlignment, ...] = ()
    """Alignments that its claims would ask for where a node can serve them."""
    keeping: tuple[str, ...] = ()
    """What the VM keeps while it is stopped, and what KeepPolicies leave of it."""

    @property
    def title(self) -> str:
        """``VM team-a/vm``."""
        return f"{_WORDS[self.kind]} {visible(self.key)}"


_VMS: Final = (VirtualMachine, VirtualMachineInstance)
"""Either is found where the other one is asked for; `virt-dra get vms` shows both."""
_pods_by_owner = ModelIndex(Pod, owner_uids)


class SubjectFinder:
    """Finds subjects in a model, each in constant time."""

    def __init__(self, model: ClusterModel) -> None:
        self._model = model

    @cached_property
    def _fitting(self) -> Fitting:
        from virt_dra.simulator.fit import Fitting  # here, since it needs the launcher and the webhooks

        return Fitting(self._model, self._kubevirt)

    @cached_property
    def _kubevirt(self) -> KubeVirtAtHand:
        from webhooks.lint.inputs import KubeVirtAtHand

        kubevirt = next(iter(self._model.of(KubeVirt)), None)
        return KubeVirtAtHand.configured(kubevirt, beside_kubevirt=not self._model.knows(KubeVirt))

    @cached_property
    def _admission(self) -> AdmissionReview:
        from virt_dra.simulator.explaining.admission import AdmissionReview

        return AdmissionReview(self._model, self._kubevirt, self._fitting)

    def get(self, kind: type[ObjectT], name: str, namespace: str) -> ObjectT | None:
        return self._model.by_key(kind).get(f"{namespace}/{name}")

    def find(self, word: str, name: str, namespace: str) -> AskedSubject:
        """The subject of this kind and name. Raises NoSubject. ``word``: one of KINDS."""
        kind = KINDS[word.lower()]
        obj: TypedObject | None = self.get(kind, name, namespace)
        if obj is None and kind in _VMS:
            obj = self.get(VirtualMachine, name, namespace) or self.get(VirtualMachineInstance, name, namespace)
        if obj is None:
            raise NoSubject(_missing(self._model, kind, name, namespace))
        asked = AskedSubject(type(obj), obj.key, keeping=self._keeping(obj))
        if isinstance(obj, ResourceClaim):
            return _of_claim(asked, obj)
        if isinstance(obj, Pod):
            of_pod = self.get(VirtualMachineInstance, vm_of_pod(obj), obj.namespace)
            current = of_pod is not None and self._pod_of(of_pod) == obj
            return self._of_pod(asked, obj, of_pod if current else None)
        vmi = obj if isinstance(obj, VirtualMachineInstance) else self.get(VirtualMachineInstance, name, namespace)
        if vmi is not None and vmi.finished:
            asked, vmi = replace(asked, ended=vmi.status.phase or ""), None
        pod = self._pod_of(vmi) if vmi is not None else None
        if pod is not None:
            return self._of_pod(asked, pod, vmi)
        subject = obj
        if not isinstance(subject, VirtualMachine | VirtualMachineInstance):
            raise AssertionError("only VMs are left")
        deletion = deletion_text(subject, vmi)
        problem = (Reason(TERMINATING, deletion) if deletion else None) or (
            self._why_not_started(vmi) if vmi is not None else None
        )
        wish = problem or self.start_of(subject)
        if isinstance(wish, Reason):
            return replace(asked, problem=wish)
        preferences = () if vmi is not None else self._admission.preferences(subject)
        return replace(asked, wish=wish, unknown=self._admission.doubts(subject), preferences=preferences)

    def _keeping(self, asked: TypedObject) -> tuple[str, ...]:
        vm = asked if isinstance(asked, VirtualMachine) else None
        if isinstance(asked, VirtualMachineInstance):
            owner = asked.metadata.controller_owner
            vm = self.get(VirtualMachine, owner.name, asked.namespace) if owner is not None else None
        if vm is None:
            return ()
        kept = tuple(
            f"{device}, {user.stopped_text}"
            for claim in kept_claims(self._model, vm.key)
            for device, holder in devices_held_by(claim, self._model)
            for user in holder.users
            if user.keeps
        )
        if kept or not (self._model.of(KeepPolicy) or speaks_of_keeping(vm.metadata.annotations)):
            return kept
        return self._admission.keeping(vm)

    def start_of(self, subject: VirtualMachine | VirtualMachineInstance) -> Wish | Reason:
        """The pod that a VM would get if it were started, with its claims; the reason if it can't start anywhere."""
        return (
            self._named_gap(subject)
            or self._admission.denial(subject)
            or self._used_claim(subject)
            or self.wish_of(subject)
        )

    def wish_of(self, subject: VirtualMachine | VirtualMachineInstance) -> Wish | Reason:
        """The pod that a VM would get if it were admitted, with its claims; sized by its instancetype (K-16); or why
        not."""
        if isinstance(subject, VirtualMachine):
            subject = expand(subject, instancetypes_of(self._model), subject.namespace).vm
        wanted = self._fitting.wanted(subject, subject.namespace)
        if isinstance(wanted, Reason):
            return wanted
        pod, claims = wanted
        return Wish(_with_statuses(pod, claims), each_once(claims))

    def is_placed(self, subject: VirtualMachineInstance | Pod) -> bool:
        """Whether the subject's pod has a node and nothing is known to be in the way: cheaper than :meth:`find`."""
        pod = self._pod_of(subject) if isinstance(subject, VirtualMachineInstance) else subject
        if pod is None or not pod.spec.node_name:
            return False
        return isinstance(subject, Pod) or self._why_not_started(subject) is None

    def _why_not_started(self, vmi: VirtualMachineInstance) -> Reason | None:
        from virt_dra.simulator.explaining.starting import why_not_started  # it needs the operator's rooms

        return why_not_started(vmi, self._model)

    def _pod_of(self, vmi: VirtualMachineInstance) -> Pod | None:
        return current_pod(vmi, _pods_by_owner(self._model, vmi.metadata.uid) if vmi.metadata.uid else ())

    def _named_gap(self, subject: VirtualMachine | VirtualMachineInstance) -> Reason | None:
        """The claim or template that a VM names and that isn't there."""
        spec = subject.spec.template.spec if isinstance(subject, VirtualMachine) else subject.spec
        for number, entry in enumerate(spec.resource_claims):
            named = (
                (ResourceClaimTemplate, entry.resource_claim_template_name),
                (ResourceClaim, entry.resource_claim_name),
            )
            for kind, name in named:
                if name and self.get(kind, name, subject.namespace) is None:
                    names = [obj.name for obj in self._model.of(kind) if obj.namespace == subject.namespace]
                    meant = nearest(name, names)
                    hint = (
                        f"; did you mean {meant}?"
                        if meant is not None
                        else f"; create it in namespace {subject.namespace}"
                    )
                    text = f"spec.resourceClaims[{number}] names {kind.KIND} {name}, which isn't there{hint}"
                    return Reason(CLAIM_MISSING if kind is ResourceClaim else CLAIM_NOT_CREATED, text)
        return None

    def _used_claim(self, subject: VirtualMachine | VirtualMachineInstance) -> Reason | None:
        """A claim that the VM names and that another VM's pod uses (K-5.36)."""
        spec = subject.spec.template.spec if isinstance(subject, VirtualMachine) else subject.spec
        for number, entry in enumerate(spec.resource_claims):
            claim = self.get(ResourceClaim, entry.resource_claim_name or "", subject.namespace)
            users = users_of(claim, self._model) if claim is not None and claim.status.allocation is not None else ()
            other = next((user for user in users if user.reserved and user.vm not in ("", subject.name)), None)
            if other is not None:
                text = (
                    f"spec.resourceClaims[{number}] names ResourceClaim {entry.resource_claim_name}, which {other} uses"
                )
                return Reason(SHARED_CLAIM, f"{text}; a device can be passed to one VM at a time")
        return None

    def _is_path_open(self, vmi: VirtualMachineInstance) -> bool:
        """Whether the VMI's devices may not reach it although its pod was made: only then the lint is asked."""
        return PATH_ANNOTATION in vmi.metadata.annotations or reads_slices(self._kubevirt.version)

    def _of_pod(self, asked: AskedSubject, pod: Pod, vmi: VirtualMachineInstance | None) -> AskedSubject:
        """The subject whose pod this is. ``vmi``: the one that the pod runs, if it is the current pod of one."""
        stuck = self._why_not_started(vmi) if vmi is not None else None
        if stuck is None and vmi is not None and not pod.spec.node_name and self._is_path_open(vmi):
            stuck = self._admission.denial(vmi, made=True)
            asked = replace(asked, unknown=self._admission.doubts(vmi))
        if stuck is not None:
            return replace(asked, made=True, problem=stuck, unknown=())
        names = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
        claims: list[ResourceClaim] = []
        for number, entry in enumerate(pod.spec.resource_claims):
            name = entry.resource_claim_name or names.get(entry.name)
            if name:
                claim = self.get(ResourceClaim, name, pod.namespace)
                code, source = CLAIM_MISSING, f"ResourceClaim {name}"
            else:
                template = self.get(ResourceClaimTemplate, entry.resource_claim_template_name or "", pod.namespace)
                code, source = CLAIM_NOT_CREATED, f"ResourceClaimTemplate {entry.resource_claim_template_name}"
                claim = generated_claim(pod, entry.name, template) if template is not None else None
                claim = (
                    claim.with_(metadata=claim.metadata.with_(name=f"generated-{number}", uid=f"generated-{number}"))
                    if claim
                    else None
                )
            if claim is None:
                problem = Reason(code, f"its pod {pod.key} names {source}, which isn't there")
                return replace(asked, made=True, node=pod.spec.node_name or "", problem=problem)
            claims.append(defaulted(claim))
        if pod.spec.node_name:
            pod = _with_statuses(pod, claims)
            return replace(asked, made=True, node=pod.spec.node_name or "", claims=tuple(claims), pod=pod)
        return replace(asked, wish=Wish(_with_statuses(pod, claims), each_once(claims)), made=True)


def find_subject(word: str, name: str, namespace: str, model: ClusterModel) -> AskedSubject:
    """The subject in a model. Raises NoSubject. ``word``: one of KINDS; ``name``: ``vm``, ``team-a/vm``."""
    given, slash, rest = name.partition("/")
    namespace, name = (given, rest) if slash else (namespace, name)
    return SubjectFinder(model).find(word, name, namespace)


def _of_claim(asked: AskedSubject, claim: ResourceClaim) -> AskedSubject:
    claim = defaulted(claim)
    if claim.status.allocation is not None:
        return replace(asked, node=claim_node(claim), claims=(claim,), made=True)
    entry = PodResourceClaim(name="claim", resource_claim_name=claim.name)
    spec = PodSpec(containers=(Container(name=_CLAIM_POD),), resource_claims=(entry,))
    pod = Pod(metadata=ObjectMeta(name=_CLAIM_POD, namespace=claim.namespace), spec=spec)
    return replace(asked, wish=Wish(pod, (claim.with_(status=ResourceClaimStatus()),)), made=True)


def _with_statuses(pod: Pod, claims: Iterable[ResourceClaim]) -> Pod:
    names = zip(pod.spec.resource_claims, claims, strict=True)
    statuses = tuple(PodResourceClaimStatus(name=entry.name, resource_claim_name=claim.name) for entry, claim in names)
    return pod.with_(status=pod.status.with_(resource_claim_statuses=statuses))


def _missing(model: ClusterModel, kind: type[TypedObject], name: str, namespace: str) -> str:
    word = _WORDS[kind]
    same = [obj for alike in (_VMS if kind in _VMS else (kind,)) for obj in model.of(alike)]
    elsewhere = sorted({obj.namespace for obj in same if obj.name == name})
    if elsewhere:
        others = visible(", ".join(elsewhere[:3]))
        return f"there is no {word} {name} in namespace {namespace}, but in {others}: name it with -n"
    meant = nearest(name, [obj.name for obj in same if obj.namespace == namespace])
    if meant is not None:
        return f"there is no {word} {name} in namespace {namespace}; did you mean {visible(meant)}?"
    keys = sorted({visible(obj.key) for obj in same})
    others = f"there are {listed(keys, 5)}" if keys else f"there is no {word} at all"
    return f"there is no {word} {name} in namespace {namespace}; {others}"
