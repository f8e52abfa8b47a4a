"""Symbols: stable names for objects that the cluster names (docs/spec/scenarios.md, "Symbols"). Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from virt_dra.api.resource_v1 import POD_CLAIM_NAME_ANNOTATION
from virt_dra.api.wire import Json
from virt_dra.cluster.memory.names import ALPHABET, SUFFIX_LENGTH
from virt_dra.controllers.loops.claims import generate_name

EXTENDED_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
UNKNOWN_UID: Final = "uid:unknown"


class NoSuchSymbol(ValueError):
    """A reference names an object that was never seen."""


@dataclass
class Seen:
    """An object that was seen. ``made``, ``gone``: after these steps; ``shown``: a recorded state has it."""

    kind: str
    namespace: str
    name: str
    uid: str
    series: str
    """The symbol without a number."""
    generated: bool
    owner: str
    """The UID of its controller, "" without one."""
    made: int
    gone: int | None = None
    shown: bool = False

    @property
    def unnoticed(self) -> bool:
        """True if an observer that doesn't see every change may have missed it."""
        return self.gone == self.made and not self.shown


class ObjectLog:
    """All objects that were seen, in the order of their first sight."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Seen] = {}

    def see(self, kind: str, raw: Json, step: int) -> None:
        """Note an object as it was added or changed."""
        metadata = raw["metadata"]
        uid = metadata["uid"]
        if uid not in self._by_uid:
            series = _series(metadata)
            generated = series is not None
            namespace, name = metadata.get("namespace", ""), metadata["name"]
            owner = (_controller(metadata) or {}).get("uid", "")
            self._by_uid[uid] = Seen(kind, namespace, name, uid, series or name, generated, owner, step)

    def lose(self, uid: str, step: int) -> None:
        """Note that an object was deleted."""
        if uid in self._by_uid and self._by_uid[uid].gone is None:
            self._by_uid[uid].gone = step

    def show(self, uid: str) -> None:
        """Note that a recorded state has the object."""
        if uid in self._by_uid:
            self._by_uid[uid].shown = True

    def table(self) -> SymbolTable:
        """The symbols of what has been seen so far."""
        return SymbolTable(tuple(self._by_uid.values()))


def _series(metadata: Mapping[str, Any]) -> str | None:
    """``<owner>/<entry>`` of a generated claim with a controller; None for objects that have a name of their own."""
    owner = _controller(metadata)
    if not metadata.get("generateName") or owner is None:
        return None
    annotations = metadata.get("annotations") or {}
    extended = annotations.get(EXTENDED_ANNOTATION) == "true"
    return f"{owner['name']}/{'extended' if extended else annotations.get(POD_CLAIM_NAME_ANNOTATION, '')}"


def _controller(metadata: Mapping[str, Any]) -> Json | None:
    owners = metadata.get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)


class SymbolTable:
    """Symbols of objects, and texts with symbols in place of names and UIDs."""

    def __init__(self, seen: Iterable[Seen]) -> None:
        self._seen = tuple(seen)
        self._symbols: dict[str, str] = {}
        self._latest: dict[tuple[str, str], Seen] = {}
        numbers: defaultdict[tuple[str, str], int] = defaultdict(int)
        for seen_object in self._seen:
            if seen_object.unnoticed:
                self._symbols[seen_object.uid] = f"{seen_object.series}#unseen"
                continue
            series = (seen_object.kind, seen_object.series)  # of all namespaces
            numbers[series] += 1
            self._symbols[seen_object.uid] = (
                seen_object.series if numbers[series] == 1 else f"{seen_object.series}#{numbers[series]}"
            )
            self._latest[seen_object.kind, seen_object.series] = seen_object

    def symbol(self, uid: str) -> str | None:
        """The symbol of the object with this UID, if it was seen."""
        return self._symbols.get(uid)

    def knows(self, name: str, pod_uid: str) -> bool:
        """True for the real name of a generated object that was seen, and of a claim that isn't this pod's."""
        return name in self._names or any(owner != pod_uid for owner in self._owners.get(name, ()))

    @cached_property
    def _owners(self) -> Mapping[str, list[str]]:
        """The UIDs of the controllers of claims whose names weren't generated, by the claim's name."""
        owners = defaultdict(list)
        for seen_object in self._seen:
            if seen_object.kind == "ResourceClaim" and not seen_object.generated:
                owners[seen_object.name].append(seen_object.owner)
        return owners

    def uid_text(self, uid: str) -> str:
        """``uid:Kind/symbol``."""
        return self._uids.get(uid, UNKNOWN_UID)

    @cached_property
    def _uids(self) -> Mapping[str, str]:
        return {
            seen_object.uid: f"uid:{seen_object.kind}/{self._symbols[seen_object.uid]}" for seen_object in self._seen
        }

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return {seen_object.name: self._symbols[seen_object.uid] for seen_object in self._seen if seen_object.generated}

    @cached_property
    def _known(self) -> re.Pattern[str] | None:
        texts = sorted((*self._names, *self._uids), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, texts))) if texts else None

    def replaced(self, text: str, bases: Iterable[str] = ()) -> str:
        """The text with symbols in place of generated names and UIDs. Behind ``bases`` (generateNames), names of no
        object become ``?????``."""
        replaced = (
            self._known.sub(lambda match: self._names.get(match.group()) or self._uids[match.group()], text)
            if self._known
            else text
        )
        for base in bases:
            replaced = re.sub(
                rf"{re.escape(base)}[{ALPHABET}]{{{SUFFIX_LENGTH}}}(?![a-z0-9])",
                f"{base}{'?' * SUFFIX_LENGTH}",
                replaced,
            )
        return replaced

    def real(self, value: Any) -> Any:
        """JSON with names and UIDs in place of references ``@X`` and ``uid:Kind/X``. Raises :class:`NoSuchSymbol`."""
        if isinstance(value, dict):
            return {key: self.real(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self.real(item) for item in value]
        if not isinstance(value, str):
            return value
        if value.startswith("@"):
            return self._referred("ResourceClaim", value[1:], value).name
        if value.startswith("uid:") and "/" in value:
            kind, _, symbol = value[len("uid:") :].partition("/")
            return self._referred(kind, symbol, value).uid
        return value

    def _referred(self, kind: str, symbol: str, text: str) -> Seen:
        for seen_object in self._seen:
            if seen_object.kind == kind and self._symbols[seen_object.uid] == symbol and "#" in symbol:
                return seen_object
        latest = self._latest.get((kind, symbol))
        if latest is None:
            raise NoSuchSymbol(f"{text}: no {kind} of that symbol was seen")
        return latest


def unseen(owner: str, entry: str) -> str:
    """The symbol for the name of a claim that was never observed."""
    return f"{owner}/{entry}#unseen"


def generated_bases(pods: Iterable[Json]) -> tuple[str, ...]:
    """The generateNames of the claims that pods and PodGroups may get."""
    bases: list[str] = []
    for raw in pods:
        name = raw["metadata"]["name"]
        bases += [generate_name(name, entry["name"]) for entry in raw.get("spec", {}).get("resourceClaims") or ()]
        bases.append(f"{name}-extended-resources-")
    return tuple(dict.fromkeys(bases))
