"""The real kube-scheduler as the judge: random clusters on a real API server, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from devtools.cluster.admin_requests import MOST_CONNECTIONS, WAIT_SECONDS, ControlPlaneError, RequestError
from devtools.cluster.control_plane import ControlPlane
from devtools.fit.answers import FITS, FitAnswer, said_of_nodes
from devtools.fit.case import ASKER, NAMESPACE, FitCase, Json, of_kind
from devtools.fit.reference import by_filters
from virt_dra.api.policies.storage_v1 import AVAILABLE, SELECTED_NODE
from virt_dra.api.resource_v1 import ResourceClaim

_DRA: Final = "/apis/resource.k8s.io/v1"
_PATHS: Final[Mapping[str, str]] = {
    "DeviceClass": f"{_DRA}/deviceclasses",
    "Node": "/api/v1/nodes",
    "ResourceSlice": f"{_DRA}/resourceslices",
    "Pod": f"/api/v1/namespaces/{NAMESPACE}/pods",
    "ResourceClaim": f"{_DRA}/namespaces/{NAMESPACE}/resourceclaims",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "PersistentVolumeClaim": f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims",
    "PersistentVolume": "/api/v1/persistentvolumes",
}
"""The kinds that a round creates, in the order in which it does."""
_WITH_STATUS: Final = frozenset({"ResourceClaim", "PersistentVolumeClaim", "PersistentVolume"})
GATES: Final = {"TaintTolerationComparisonOperators": True}
"""The feature gates of the control plane."""
ARGUMENTS: Final = ("--disable-admission-plugins", "TaintNodesByCondition")
"""Those of kube-apiserver: no new node gets a taint because it isn't ready."""
_GATE: Final = "example.com/cluster-is-complete"
_POLL: Final = 0.01
_PATIENCE: Final = 1.0
"""Seconds in which events may still change the scheduler's mind."""
_SETTLING: Final = (0.0, 1.0, 5.0)
"""Seconds, by attempt, between a complete cluster and the asker's turn: on a busy machine informers are behind."""


@dataclass(frozen=True)
class JudgedRound:
    """``dump``: the cluster as the API server gave it before the asker was scheduled, with its pod as the asker.
    ``ours``: the answer of our filters."""

    dump: FitCase
    ours: FitAnswer
    judgement: FitAnswer

    @property
    def contradictions(self) -> tuple[str, ...]:
        """The parts in which the two differ. Errors end kube-scheduler's attempt; ours goes on with other nodes."""
        return () if self.judgement.undecided else self.judgement.differences(self.ours)


class KubeSchedulerRounds:
    """Plays cases on a control plane that runs only the scheduler, so that no controller interferes."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._threads = ThreadPoolExecutor(MOST_CONNECTIONS)
        self._plane.start_scheduler()
        labels = {"resource.kubernetes.io/admin-access": "true"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
        self._plane.request("POST", "/api/v1/namespaces", namespace)

    def judged(self, case: FitCase) -> JudgedRound | None:
        """None for an asker that can't have a pod. A round that contradicts our filters is repeated by a scheduler
        without history, with more time: one that has judged other clusters may still count devices of their claims as
        allocated (seen where it was short of processors, with an earlier round's claim)."""
        for attempt, settling in enumerate(_SETTLING):
            if attempt:
                self._plane.stop_scheduler()
                self._plane.start_scheduler()
            judged = self._judged(case, settling)
            if judged is None or not judged.contradictions:
                break
        return judged

    def _judged(self, case: FitCase, settling: float) -> JudgedRound | None:
        wish = case.wish
        if wish is None:
            return None
        try:
            self._create(case)
            stored = {raw["metadata"]["name"] for raw in of_kind(case.raw, ResourceClaim.KIND)}
            generated = [claim for claim in wish.claims if claim.name not in stored]
            self._create_asker(wish.pod.to_wire(), generated)
            dump = self._dump()
            ours = by_filters(dump)
            time.sleep(settling)
            self._patch("Pod", ASKER, {"spec": {"schedulingGates": None}})
            return JudgedRound(dump, ours, self._answer(ours))
        finally:
            self._clear()

    # --- the cluster ----------------------------------------------------------------------------------------------

    def _create(self, case: FitCase) -> None:
        """Every object that the API server takes. Those of one kind are created side by side, since most of the time is
        waiting for answers."""
        uids: dict[str, str] = {}
        for kind in _PATHS:
            objects = [raw for raw in of_kind(case.raw, kind) if raw["metadata"]["name"] != ASKER]
            for _ in self._threads.map(self._create_one, objects, repeat(uids)):
                pass

    def _create_one(self, raw: Json, uids: dict[str, str]) -> None:
        """``uids``: of the case -> of the API server, to which the object's is added."""
        metadata = {key: raw["metadata"][key] for key in ("name", "labels", "annotations") if key in raw["metadata"]}
        if raw["kind"] == "Pod":
            raw = {**raw, "spec": {**raw["spec"], "terminationGracePeriodSeconds": 0}}
        if "claimRef" in raw.get("spec", {}):
            claim = {**raw["spec"]["claimRef"], "uid": uids[raw["spec"]["claimRef"]["uid"]]}
            raw = {**raw, "spec": {**raw["spec"], "claimRef": claim}}
        try:
            created = self._plane.request("POST", _PATHS[raw["kind"]], {**raw, "metadata": metadata})
        except RequestError as error:
            if error.status != 422:
                raise
            return
        uids[raw["metadata"].get("uid", "")] = created["metadata"]["uid"]
        finished = raw["kind"] == "Pod" and raw["status"]["phase"] == "Succeeded"
        if finished or (raw["kind"] in _WITH_STATUS and "status" in raw):
            self._set_status(raw, uids)

    def _set_status(self, raw: Json, uids: Mapping[str, str]) -> None:
        status = {key: value for key, value in raw["status"].items() if key != "reservedFor"}
        reserved = [consumer for consumer in raw["status"].get("reservedFor", ()) if consumer["uid"] in uids]
        if reserved:
            status["reservedFor"] = [{**consumer, "uid": uids[consumer["uid"]]} for consumer in reserved]
        try:
            self._patch(raw["kind"], raw["metadata"]["name"], {"status": status}, "/status")
        except RequestError as error:
            if error.status != 422:
                raise

    def _create_asker(self, pod: Json, generated: Sequence[ResourceClaim]) -> None:
        """Its pod waits at a gate until it has its claims. ``generated``: those from templates."""
        spec = {**pod["spec"], "schedulingGates": [{"name": _GATE}], "terminationGracePeriodSeconds": 0}
        metadata = {"name": ASKER, "labels": pod["metadata"].get("labels", {})}
        created = self._plane.request(
            "POST", _PATHS["Pod"], {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": ASKER,
            "uid": created["metadata"]["uid"],
            "controller": True,
        }
        for claim in generated:
            metadata = {"name": claim.name, "ownerReferences": [owner]}
            self._plane.request("POST", _PATHS["ResourceClaim"], {**claim.to_wire(), "metadata": metadata})
        if "resourceClaimStatuses" in pod.get("status", {}):
            statuses = pod["status"]["resourceClaimStatuses"]
            self._patch("Pod", ASKER, {"status": {"resourceClaimStatuses": statuses}}, "/status")

    def _dump(self) -> FitCase:
        raw = [self._plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}")]
        answers = self._threads.map(self._plane.request, repeat("GET"), _PATHS.values())
        for kind, listed in zip(_PATHS, answers, strict=True):
            version = listed["apiVersion"]
            raw += [{"apiVersion": version, "kind": kind, **item} for item in listed["items"]]
        return FitCase(tuple(map(_ungated, raw)))

    def _clear(self) -> None:
        for _ in self._threads.map(self._clear_kind, _PATHS):
            pass

    def _clear_kind(self, kind: str) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        deleted = self._plane.request("DELETE", _PATHS[kind], options)
        for item in deleted.get("items", ()):
            if item["metadata"].get("finalizers"):
                self._free(kind, item["metadata"]["name"])

    def _free(self, kind: str, name: str) -> None:
        try:
            self._patch(kind, name, {"metadata": {"finalizers": None}})
        except RequestError as error:
            if error.status != 404:
                raise

    def _patch(self, kind: str, name: str, patch: Json, subresource: str = "") -> None:
        self._plane.merge(f"{_PATHS[kind]}/{name}{subresource}", patch)

    # --- the answer -------------------------------------------------------------------------------------------------

    def _answer(self, expected: FitAnswer) -> FitAnswer:
        """The scheduler's, as soon as it agrees, else the one that it ends up with. Raises ControlPlaneError."""
        began = time.monotonic()
        answer: FitAnswer | None = None
        while answer is None or time.monotonic() < began + _PATIENCE:
            answer = next(self._answers(), answer)
            if answer is not None and (answer.verdict == FITS or not answer.differences(expected)):
                return answer
            if answer is None and time.monotonic() > began + WAIT_SECONDS:
                raise ControlPlaneError(f"kube-scheduler hasn't tried the pod after {WAIT_SECONDS:.0f} s")
            time.sleep(_POLL)
        return answer

    def _answers(self) -> Iterator[FitAnswer]:
        pod = self._plane.request("GET", f"{_PATHS['Pod']}/{ASKER}")
        if pod["spec"].get("nodeName"):
            yield FitAnswer(FITS, chosen=pod["spec"]["nodeName"])
        for condition in pod["status"].get("conditions", ()):
            if condition["type"] == "PodScheduled" and condition["reason"] in ("Unschedulable", "SchedulerError"):
                yield said_of_nodes(condition["reason"], condition["message"])
        if pod["spec"].get("resourceClaims") and self._waits_for_devices(pod):
            yield FitAnswer(FITS)
        for node in self._nodes_of_volumes() if pod["spec"].get("volumes") else ():
            yield FitAnswer(FITS, chosen=node)

    def _nodes_of_volumes(self) -> Iterator[str]:
        """The node for which volumes are to be made or bound: no controller does that here, so its pod isn't bound."""
        for claim in self._plane.request("GET", _PATHS["PersistentVolumeClaim"])["items"]:
            node = claim["metadata"].get("annotations", {}).get(SELECTED_NODE)
            if node is not None:
                yield node
        for volume in self._plane.request("GET", _PATHS["PersistentVolume"])["items"]:
            if "claimRef" in volume["spec"] and volume["status"].get("phase") == AVAILABLE:
                (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
                yield term["matchExpressions"][0]["values"][0]

    def _waits_for_devices(self, pod: Json) -> bool:
        """Whether claims are reserved for it: it is bound once its devices are ready, which no driver reports here."""
        uid = pod["metadata"]["uid"]
        claims = self._plane.request("GET", _PATHS["ResourceClaim"])["items"]
        return any(
            uid == consumer["uid"] for claim in claims for consumer in claim.get("status", {}).get("reservedFor", ())
        )


def _ungated(raw: Json) -> Json:
    if raw["kind"] != "Pod" or raw["metadata"]["name"] != ASKER:
        return raw
    spec = {key: value for key, value in raw["spec"].items() if key != "schedulingGates"}
    return {**raw, "spec": spec, "status": {**raw["status"], "conditions": []}}
