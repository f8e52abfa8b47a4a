"""Reads scenarios: every fault at once, with the field's path, before anything is done on a cluster. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from virt_dra.api.core_v1 import FINISHED
from virt_dra.api.counting import counted
from virt_dra.api.feature_gates import FeatureGateError, FeatureGates
from virt_dra.api.names import dns1123_subdomain
from virt_dra.api.nearest import did_you_mean
from virt_dra.api.wire import Json
from virt_dra.simulator.control_plane import CLASSIC_KINDS
from virt_dra.simulator.scenario.gates import read_gates
from virt_dra.simulator.scenario.scenario import (
    API_VERSIONS,
    CLUSTER_SCOPED,
    COMPARED,
    PLAY,
    WITH_STATUS,
    ActingUser,
    Compared,
    Scenario,
    Step,
    api_versions,
)

TIMERS: Final = ("bindingTimeout", "filterTimeout")
LONGEST_WAIT: Final = 7 * 24 * 3600.0
"""Seconds of one ``wait``."""
LONGEST_NAME: Final = 500
MOST_STEPS: Final = 1000
MOST_OBJECTS: Final = 10_000
MOST_DRIVERS: Final = 32
_FIELDS: Final = (
    "name", "rules", "kubernetes", "drivers", "gates", "timers", "namespaceLabels", "given", "steps", "compare", "long",
    "note",
)  # fmt: skip
_STEP_FIELDS: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "apply": (("objects",), ()),
    "delete": (("kind", "name"), ("grace",)),
    "patch": (("kind", "name", "patch"), ("subresource",)),
    "bind": (("pod", "node"), ()),
    "run": (("pods",), ()),
    "finish": (("pods",), ("phase",)),
    "stop": (("pods",), ()),
    "device-status": (("claim", "devices"), ()),
    "driver": (("name", "settings"), ()),
    "wait": (("seconds",), ()),
    "settle": ((), ()),
    "observe": (("as",), ()),
}
"""``do`` -> the fields that it needs, and those that it may have."""
_WITHOUT_REQUESTS: Final = frozenset({"driver", "wait", "settle", "observe"})
_FAILURES: Final = ("allocate", "deallocate", "unsuitableNodes", "classParameters", "claimParameters")
"""Calls of a classic driver, which a setting of that name lets fail with a text."""


class ScenarioError(ValueError):
    """A scenario that can't be played. ``problems``: (path, message) of each fault."""

    def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path}: {message}" if path else message for path, message in problems))


def read_scenario(raw: object) -> Scenario:
    """The scenario in a JSON value. Raises :class:`ScenarioError` with all faults."""
    return _Reader().scenario(raw)


class _Reader:
    """Collects faults; what it returns counts only if there are none."""

    def __init__(self) -> None:
        self._problems: list[tuple[str, str]] = []
        self._release = ""
        self._versions = API_VERSIONS
        """Kind -> version, of the release."""

    def scenario(self, raw: object) -> Scenario:
        if not isinstance(raw, dict):
            raise ScenarioError((("", "a scenario must be a JSON object"),))
        self._known(raw, "", _FIELDS)
        name = raw.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
            self._fault("name", f"is required: a line of at most {LONGEST_NAME} characters")
        self._release = self._kubernetes(raw)
        self._versions = api_versions(self._release)
        gates, texts = self._gates(raw.get("gates"))
        given = self._objects(raw.get("given", []), "given")
        steps = self._steps(raw.get("steps", []))
        scenario = Scenario(
            name=str(name),
            steps=steps,
            given=given,
            rules=tuple(self._texts(raw.get("rules", []), "rules")),
            gates=gates,
            gate_texts=texts,
            timers=self._timers(raw.get("timers")),
            namespace_labels=self._labels(raw.get("namespaceLabels")),
            compare=self._compare(raw.get("compare")),
            long=raw.get("long") is True,
            note=str(raw.get("note") or ""),
            kubernetes=self._release,
            drivers=self._drivers(raw.get("drivers")),
        )
        if not self._problems:
            self._problems += _StepCheck(scenario).problems()
        if self._problems:
            raise ScenarioError(tuple(self._problems))
        return scenario

    # --- parts ------------------------------------------------------------------------------------------------------

    def _kubernetes(self, raw: Json) -> str:
        release = raw.get("kubernetes", "")
        if "kubernetes" in raw and (not isinstance(release, str) or release not in CLASSIC_KINDS):
            releases = ", ".join(f'"{minor}"' for minor in CLASSIC_KINDS)
            self._fault("kubernetes", f"must be left out, or the text of a release with classic DRA: {releases}")
            return ""
        if release:
            for name in ("gates", "timers"):
                if raw.get(name):
                    self._fault(name, f"belong to the present release, not to {release}")
        return str(release)

    def _drivers(self, raw: object) -> Mapping[str, Json]:
        drivers = self._mapping(raw, "drivers")
        if drivers and not self._release:
            self._fault("drivers", "are those of classic DRA: name the release in kubernetes")
        if len(drivers) > MOST_DRIVERS:
            self._fault("drivers", f"are {len(drivers)}; at most {MOST_DRIVERS} run")
            return {}
        for name in drivers:
            for problem in dns1123_subdomain(str(name)):
                self._fault(f"drivers.{name}", problem)
        return {str(name): self._settings(settings, f"drivers.{name}") for name, settings in drivers.items()}

    def _settings(self, raw: object, path: str) -> Json:
        """What a classic driver has and how it fails."""
        if not isinstance(raw, dict):
            self._fault(path, "must be a JSON object")
            return {}
        self._known(raw, path, ("devices", "shareable", *_FAILURES))
        devices = raw.get("devices", {})
        if not isinstance(devices, dict) or not all(type(left) is int and left >= 0 for left in devices.values()):
            self._fault(f"{path}.devices", "must be an object, node to number of devices")
        if not isinstance(raw.get("shareable", False), bool):
            self._fault(f"{path}.shareable", "must be true or false")
        for call in _FAILURES:
            if not isinstance(raw.get(call, ""), str):
                self._fault(f"{path}.{call}", "must be text, the error of that call")
        return raw

    def _gates(self, raw: object) -> tuple[FeatureGates, Mapping[str, bool]]:
        given: dict[str, bool] = {}
        for gate, on in self._mapping(raw, "gates").items():
            if isinstance(on, bool):
                given[gate] = on
            else:
                self._fault(f"gates.{gate}", "must be true or false")
        try:
            return read_gates(given), given
        except FeatureGateError as error:
            for problem in error.problems:
                self._fault("gates", problem)
            return FeatureGates(), given

    def _timers(self, raw: object) -> Mapping[str, float]:
        given, timers = self._mapping(raw, "timers"), dict[str, float]()
        self._known(given, "timers", TIMERS)
        for timer, seconds in given.items():
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= LONGEST_WAIT:
                self._fault(f"timers.{timer}", "must be a number of seconds, 0 to 604800")
            else:
                timers[timer] = float(seconds)
        return timers

    def _labels(self, raw: object) -> Mapping[str, str]:
        labels = self._mapping(raw, "namespaceLabels")
        for key, value in labels.items():
            if not isinstance(value, str):
                self._fault(f"namespaceLabels.{key}", "must be text")
        return {key: str(value) for key, value in labels.items()}

    def _compare(self, raw: object) -> Compared:
        given = self._mapping(raw, "compare")
        self._known(given, "compare", ("events", "ignore", "settled", "interchangeable"))
        events = given.get("events", True)
        if isinstance(events, list):
            events = tuple(self._texts(events, "compare.events"))
        elif not isinstance(events, bool):
            self._fault("compare.events", "must be true, false or a list of reasons")
        groups: list[tuple[tuple[str, ...], str]] = []
        for index, group in enumerate(self._list(given.get("interchangeable", []), "compare.interchangeable")):
            path = f"compare.interchangeable[{index}]"
            if not isinstance(group, dict) or not isinstance(group.get("as"), str):
                self._fault(path, "must have names (a list) and as (text)")
                continue
            names = tuple(self._texts(group.get("names"), f"{path}.names"))
            if not names:
                self._fault(f"{path}.names", "must name something")
            groups.append((names, group["as"]))
        settled = given.get("settled", True)
        if not isinstance(settled, bool):
            self._fault("compare.settled", "must be true or false")
        ignore = tuple(self._texts(given.get("ignore", []), "compare.ignore"))
        return Compared(events, ignore, settled is not False, tuple(groups))

    def _steps(self, raw: object) -> tuple[Step, ...]:
        steps = self._list(raw, "steps")
        if len(steps) > MOST_STEPS:
            self._fault("steps", f"are {len(steps)}; at most {MOST_STEPS} are played")
            return ()
        return tuple(
            step for index, step_ in enumerate(steps) if (step := self._step(step_, f"steps[{index}]")) is not None
        )

    def _step(self, raw: object, path: str) -> Step | None:
        if not isinstance(raw, dict):
            self._fault(path, "must be a JSON object")
            return None
        do = raw.get("do")
        if not isinstance(do, str) or do not in _STEP_FIELDS:
            self._fault(
                f"{path}.do",
                f"{_unknown(str(do), _STEP_FIELDS)}; steps are {', '.join(_STEP_FIELDS)}" if do else "is required",
            )
            return None
        needed, optional = _STEP_FIELDS[do]
        # ``as`` is a user, and in ``observe`` the label.
        shared = ("do", "namespace") if do == "observe" else ("do", "as", "namespace")
        self._known(raw, path, (*shared, *needed, *optional))
        for name in needed:
            if name not in raw:
                self._fault(f"{path}.{name}", f"is required for {do}")
        fields = {
            name: self._field(do, name, raw[name], f"{path}.{name}") for name in (*needed, *optional) if name in raw
        }
        namespace = raw.get("namespace", PLAY)
        if not isinstance(namespace, str) or not namespace:
            self._fault(f"{path}.namespace", "must be the name of a namespace")
        user = None if do == "observe" else self._user(raw.get("as"), f"{path}.as")
        if user is not None and do in _WITHOUT_REQUESTS:
            self._fault(f"{path}.as", f"{do} makes no request")
        return Step(do, fields, user, str(namespace))

    def _field(self, do: str, name: str, raw: object, path: str) -> Any:
        if name == "objects":
            return self._objects(raw, path)
        if name == "pods":
            return tuple(self._texts(raw, path))
        if name == "settings":
            return self._settings(raw, path)
        checks: Mapping[str, tuple[Callable[[Any], bool], str]] = {
            "kind": (lambda value: value in self._versions, ""),
            "patch": (lambda value: isinstance(value, dict), "must be a JSON object, a merge patch"),
            "devices": (
                lambda value: isinstance(value, list) and all(isinstance(item, dict) for item in value),
                "must be a list of objects",
            ),
            "grace": (lambda value: type(value) is int and value >= 0, "must be a number of seconds"),
            "seconds": (
                lambda value: type(value) in (int, float) and 0 < value <= LONGEST_WAIT,
                f"must be a number of seconds, more than 0 and at most {LONGEST_WAIT:.0f}: time runs forward only",
            ),
            "phase": (lambda value: value in FINISHED, "must be Succeeded or Failed"),
            "subresource": (lambda value: value == "status", "must be status"),
        }
        holds, message = checks.get(name, (lambda value: isinstance(value, str) and bool(value), "must be text"))
        try:
            good = holds(raw)
        except TypeError:  # a list or an object, where text is looked up
            good = False
        if not good:
            self._fault(path, message or self._no_kind(raw))
        return raw

    def _user(self, raw: object, path: str) -> ActingUser | None:
        if raw is None:
            return None
        if not isinstance(raw, dict) or not isinstance(raw.get("user"), str) or not raw["user"]:
            self._fault(path, "must be an object with user, and optionally groups and extra")
            return None
        self._known(raw, path, ("user", "groups", "extra"))
        given = raw.get("extra") or {}
        if not isinstance(given, dict):
            self._fault(f"{path}.extra", "must be an object, key to value")
            given = {}
        extra = {
            key: tuple(self._texts(value if isinstance(value, list) else [value], f"{path}.extra.{key}"))
            for key, value in given.items()
        }
        return ActingUser(raw["user"], tuple(self._texts(raw.get("groups", []), f"{path}.groups")), extra)

    def _objects(self, raw: object, path: str) -> tuple[Json, ...]:
        objects = self._list(raw, path)
        if len(objects) > MOST_OBJECTS:
            self._fault(path, f"are {counted(len(objects), 'object')}; at most {MOST_OBJECTS} are applied")
            return ()
        return tuple(
            obj for index, item in enumerate(objects) if (obj := self._object(item, f"{path}[{index}]")) is not None
        )

    def _object(self, raw: object, path: str) -> Json | None:
        if not isinstance(raw, dict):
            self._fault(path, "must be a Kubernetes object")
            return None
        kind = raw.get("kind")
        if not isinstance(kind, str) or kind not in self._versions:
            self._fault(f"{path}.kind", self._no_kind(kind) if kind else "is required")
            return None
        metadata = raw.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
            self._fault(f"{path}.metadata.name", "is required: an object is applied by its name")
            return None
        return raw

    # --- shapes -----------------------------------------------------------------------------------------------------

    def _no_kind(self, kind: object) -> str:
        releases = ", ".join(release for release, kinds in CLASSIC_KINDS.items() if kind in kinds)
        if not releases or kind in API_VERSIONS:
            return _unknown(str(kind), self._versions)
        if self._release:
            return f"{kind} isn't in Kubernetes {self._release}, but in {releases}"
        return f"{kind} is a kind of classic DRA: name a release that has it in kubernetes ({releases})"

    def _fault(self, path: str, message: str) -> None:
        self._problems.append((path, message))

    def _known(self, raw: Mapping[str, Any], path: str, allowed: Collection[str]) -> None:
        for name in raw:
            if name not in allowed:
                self._fault(
                    f"{path}.{name}" if path else str(name),
                    f"{_unknown(str(name), allowed)}; known are {', '.join(allowed)}",
                )

    def _mapping(self, raw: object, path: str) -> Json:
        """The object; empty, too, for a faulty one."""
        if raw is not None and not isinstance(raw, dict):
            self._fault(path, "must be a JSON object")
        return raw if isinstance(raw, dict) else {}

    def _list(self, raw: object, path: str) -> list[Any]:
        if not isinstance(raw, list):
            self._fault(path, "must be a list")
            return []
        return raw

    def _texts(self, raw: object, path: str) -> list[str]:
        texts = self._list(raw, path)
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                self._fault(f"{path}[{index}]", "must be text")
        return [str(text) for text in texts]


def _unknown(name: str, names: Collection[str]) -> str:
    return f"{name} is not known{did_you_mean(name, names)}"


# --- steps that can't be meant ------------------------------------------------------------------------------------


_GONE_AT_ONCE: Final = frozenset({
    "Node", "ResourceSlice", "DeviceClass", "ResourceClaimTemplate", "ResourceQuota", "ResourceClass",
    "ResourceClassParameters", "ResourceClaimParameters",
})  # fmt: skip
"""Kinds whose objects go with the request that deletes them."""


class _StepCheck:
    """Follows which named objects a scenario has made. What the cluster makes or takes away itself is not judged."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._made: set[tuple[str, str, str]] = {("Namespace", "", PLAY)}
        self._removed: dict[tuple[str, str, str], int] = {}
        """By which step. An object with finalizers of its own stays."""
        self._kept: set[tuple[str, str, str]] = set()
        self._labels: set[str] = set()

    def problems(self) -> Iterator[tuple[str, str]]:
        yield from self._applied(self._scenario.given, "given", PLAY)
        for index, step in enumerate(self._scenario.steps):
            path = f"steps[{index}]"
            fields = step.fields
            match step.do:
                case "apply":
                    yield from self._applied(fields["objects"], f"{path}.objects", step.namespace)
                case "delete" | "patch":
                    yield from self._needs(fields["kind"], fields["name"], f"{path}.name", step.namespace)
                    at_once = fields["kind"] in _GONE_AT_ONCE or (fields["kind"] == "Pod" and fields.get("grace") == 0)
                    if step.do == "delete" and at_once:
                        self._remove(fields["kind"], fields["name"], index, step)
                case "bind":
                    yield from self._needs("Pod", fields["pod"], f"{path}.pod", step.namespace)
                case "run" | "finish" | "stop":
                    for position, pod in enumerate(fields["pods"]):
                        if pod in fields["pods"][:position]:
                            yield f"{path}.pods[{position}]", f"{pod} is named twice in one step"
                            continue
                        yield from self._needs("Pod", pod, f"{path}.pods[{position}]", step.namespace)
                        if step.do == "stop":
                            self._remove("Pod", pod, index, step)
                case "device-status":
                    yield from self._needs("ResourceClaim", fields["claim"], f"{path}.claim", step.namespace)
                case "driver":
                    if fields["name"] not in self._scenario.drivers:
                        hint = did_you_mean(fields["name"], self._scenario.drivers)
                        yield f"{path}.name", f"no driver of that name is in drivers{hint}"
                case "observe":
                    label = fields["as"]
                    if label == "end" or label in self._labels:
                        last = ", the last one" if label == "end" else ""
                        yield f"{path}.as", f"{label} is the label of another state{last}"
                    self._labels.add(label)

    def _applied(self, objects: Collection[Json], path: str, namespace: str) -> Iterator[tuple[str, str]]:
        for index, obj in enumerate(objects):
            kind, metadata = obj["kind"], obj["metadata"]
            place = "" if kind in CLUSTER_SCOPED else str(metadata.get("namespace") or namespace)
            if obj.get("status") is not None and kind not in WITH_STATUS:
                yield f"{path}[{index}].status", f"a {kind} has no status that could be applied"
            named = (kind, place, metadata["name"])
            self._made.add(named)
            self._removed.pop(named, None)
            if metadata.get("finalizers"):
                self._kept.add(named)

    def _remove(self, kind: str, name: str, index: int, step: Step) -> None:
        """Note a removal, unless a user requests it, who may lack the right."""
        named = (kind, "" if kind in CLUSTER_SCOPED else step.namespace, name)
        if named in self._made and named not in self._kept and step.user is None:
            self._removed[named] = index

    def _needs(self, kind: str, name: str, path: str, namespace: str) -> Iterator[tuple[str, str]]:
        if name.startswith("@"):
            if kind not in COMPARED:
                yield path, f"{name}: only generated claims have symbols"
            return
        place = "" if kind in CLUSTER_SCOPED else namespace
        if (kind, place, name) in self._removed:
            yield path, f"the {kind} {name} isn't there any more: steps[{self._removed[kind, place, name]}] removed it"
        elif (kind, place, name) not in self._made:
            names = [made for other, where, made in self._made if (other, where) == (kind, place)]
            yield path, f"no step before this one makes the {kind} {name}{did_you_mean(name, names)}"
