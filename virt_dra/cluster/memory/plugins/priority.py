"""The plugin Priority: the priority of pods and PodGroups comes from their class; one class may be the default."""

from __future__ import annotations

from virt_dra.api.core_v1 import Pod
from virt_dra.api.meta import ObjectMeta, TypedObject
from virt_dra.api.scheduling_v1 import PodGroup, PriorityClass
from virt_dra.cluster.memory.plugins.write_request import WriteRequest

PREEMPTS = "PreemptLowerPriority"
_SYSTEM = {
    name: PriorityClass(metadata=ObjectMeta(name=name), value=value)
    for name, value in (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))
}
"""The classes that every cluster begins with."""


def with_priority(request: WriteRequest) -> TypedObject:
    """The pod or PodGroup with the priority of its class, of the default one, or 0. Raises :class:`Forbidden` for a
    class that isn't there, and for a priority that isn't the class's."""
    obj = request.new
    if isinstance(obj, PodGroup) and request.operation == "CREATE":
        spec = obj.spec
        priority_class = _class_of(spec.priority_class_name, request)
        if spec.priority is not None and spec.priority != priority_class.value:
            raise request.refused(
                f"priority set in the pod group ({spec.priority}) must match the priority computed "
                f"({priority_class.value}) based on the priority class set in the spec"
            )
        named = {"priority_class_name": priority_class.name} if priority_class.name else {}
        return obj.with_(spec=spec.with_(priority=priority_class.value, **named))
    if not isinstance(obj, Pod):
        return obj
    if request.operation == "CREATE":
        return _new_pod(obj, request)
    kept = (
        {field: getattr(request.old.spec, field) for field in ("priority", "preemption_policy")}
        if isinstance(request.old, Pod)
        else {}
    )
    missing = {field: value for field, value in kept.items() if value is not None and getattr(obj.spec, field) is None}
    return obj.with_(spec=obj.spec.with_(**missing)) if missing else obj


def check_default_class(request: WriteRequest) -> tuple[TypedObject, ...]:
    """Refuses a second PriorityClass that is the default. Raises :class:`Forbidden`."""
    obj = request.new
    if isinstance(obj, PriorityClass) and obj.global_default:
        default = _default(request)
        if default is not None and (request.operation == "CREATE" or default.name != obj.name):
            raise request.refused(
                f"PriorityClass {default.name} is already marked as default. Only one default can exist"
            )
    return ()


def _new_pod(pod: Pod, request: WriteRequest) -> Pod:
    spec = pod.spec
    given = (spec.model_extra or {}).get("priorityClassName")
    priority_class = _class_of(given if isinstance(given, str) else "", request)
    policy = priority_class.preemption_policy or PREEMPTS
    computed = "priority admission controller computed {} from the given PriorityClass name"
    if spec.priority is not None and spec.priority != priority_class.value:
        why = (
            f"the integer value of priority ({spec.priority}) must not be provided "
            f"in pod spec; {computed.format(priority_class.value)}"
        )
        raise request.refused(why)
    if spec.preemption_policy is not None and spec.preemption_policy != policy:
        why = (
            f"the string value of PreemptionPolicy ({spec.preemption_policy}) must "
            f"not be provided in pod spec; {computed.format(policy)}"
        )
        raise request.refused(why)
    named = {"priorityClassName": priority_class.name} if priority_class.name else {}
    return pod.with_(spec=spec.with_(priority=priority_class.value, preemption_policy=policy, **named))


def _class_of(name: str, request: WriteRequest) -> PriorityClass:
    """The named class, or the default one; a class without name if there is none."""
    if not name:
        return _default(request) or PriorityClass()
    priority_class = request.stored.find(PriorityClass, name) or _SYSTEM.get(name)
    if priority_class is None:
        raise request.refused(f"no PriorityClass with name {name} was found")
    return priority_class


def _default(request: WriteRequest) -> PriorityClass | None:
    """The least important of the default classes."""
    defaults = (
        priority_class for priority_class in request.stored.every(PriorityClass) if priority_class.global_default
    )
    return min(defaults, key=lambda priority_class: priority_class.value, default=None)
