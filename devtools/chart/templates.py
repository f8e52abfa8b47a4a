"""The chart's templates: the objects of :func:`virt_dra.installation.plan.planned`, planned for each combination of
choices, with marks in the place of what a user may write."""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from devtools.chart.conditions import lines, merged
from devtools.chart.values import ARGUMENTS, PULL_SECRETS
from virt_dra.api.kubevirt_versions import SIDECAR
from virt_dra.api.reading.yaml_writing import write_yaml
from virt_dra.installation.plan import (
    BESIDE_KUBEVIRT,
    PARTS,
    RUNBOOKS,
    STANDALONE,
    WORKLOADS,
    Choices,
    ObjectKey,
    packaged,
    planned,
)

Json = dict[str, Any]

_AUTHORITIES: Final = b"zz-authorities-zz"
_PRIORITY: Final = 1_987_654_321
_PLANNED: Final = Choices(
    namespace="zz-namespace-zz",
    image="zz-image-zz",
    launcher_image="zz-launcher-image-zz",
    # Two that the launcher's policy follows, for what the user adds.
    operator_arguments=("--launcher-image=zz-last-image-zz", "--launcher-argument=zz-more-zz"),
    webhook_arguments=("--zz-webhook-zz",),
    launcher_pull_secrets=("zz-secrets-zz",),
    launcher_priority=_PRIORITY,
    runbooks_url="zz-runbooks-zz",
)
_GATE: Final = f"--kubevirt-gates={SIDECAR}"
_NETWORK: Final = "zz-network-zz"

_CONDITIONS: Final[Mapping[str, tuple[Json, Json]]] = {
    f'eq .Values.overlay "{STANDALONE}"': ({"overlay": STANDALONE}, {"overlay": BESIDE_KUBEVIRT}),
    ".Values.certManager": ({"cert_manager": True}, {}),
    ".Values.clientCA": ({"client_ca": _AUTHORITIES}, {}),
    ".Values.apiServerCIDRs": ({"api_server_networks": (_NETWORK,)}, {}),
    ".Values.vmNamespaceLabel": ({"vm_namespace_label": "zz-label-zz"}, {}),
    'include "virt-dra.hookSidecars" .': ({"operator_arguments": (*_PLANNED.operator_arguments, _GATE)}, {}),
}
"""Expressions of templates, and what is planned where they are true, and where they are false."""

_SIMPLE: Final[Mapping[str, str]] = {
    "zz-namespace-zz": 'include "virt-dra.namespace" .',
    "zz-image-zz": 'include "virt-dra.image" .',
    "zz-launcher-image-zz": 'include "virt-dra.launcherImage" .',
    "zz-label-zz": ".Values.vmNamespaceLabel",
    "zz-runbooks-zz": f'.Values.runbooksURL | default "{RUNBOOKS}" | trimSuffix "/"',
    str(_PRIORITY): ".Values.launcherPriority | int64 | toString",
    base64.b64encode(_AUTHORITIES).decode(): ".Values.clientCA | b64enc",
}
"""Marks, and expressions of their texts, which need no escapes within quotes: the schema of values sees to that."""
_JSON: Final[Mapping[str, str]] = {
    '"zz-last-image-zz"': 'include "virt-dra.lastLauncherImage" . | toRawJson',
    ', "zz-more-zz"': 'include "virt-dra.launcherArguments" .',
    '"zz-secrets-zz"': 'include "virt-dra.launcherPullSecrets" .',
}
"""Marks within expressions of CEL, and expressions of their texts, which are JSON."""
_MARKS: Final = re.compile(f"({'|'.join(map(re.escape, (*_JSON, *_SIMPLE)))})")

_ITEMS: Final[Mapping[str, tuple[str, str]]] = {
    "networks": ("apiServerCIDRs", "ipBlock: {cidr: {{ . | quote }}}"),
    **{name: (f"{name}.arguments", "{{ . | toJson }}") for name in ARGUMENTS},
}
"""Lists of the user's: their value, and an item of the manifest for an item of it."""
_ITEM_LINE: Final = re.compile(r"( *)- zz-items-(\w+)-zz")
_FIELD_LINE: Final = re.compile(r"( *)(\w+): zz-field-([\w.]+)-zz")
_TEXT_MARK: Final = re.compile(r"zz-text-(\d+)-zz")


def templates() -> tuple[Mapping[str, str], Mapping[str, Json]]:
    """Texts of templates by their paths; and what the manifests say that a user may change, by workload."""
    marking = _Marking()
    files = {}
    for key, part in _parts().items():

        def variant(answers: Mapping[str, bool], key: ObjectKey = key) -> Sequence[str]:
            obj = _variant(tuple(answers.items())).get(key)
            return () if obj is None else marking.lines_of(obj)

        text = "\n".join(_resolved(lines(merged(tuple(_CONDITIONS), variant)), marking.texts))
        if condition := _condition(key, part):
            text = f"{{{{- if {condition} }}}}\n{text}\n{{{{- end }}}}"
        files[_path(key, part)] = f"{text}\n"
    for name in PARTS:  # one without pods
        marking.workloads.setdefault(name, {"enabled": False})
    order = dict.fromkeys((*ARGUMENTS, *(name for name in marking.workloads if name not in PARTS), *PARTS))
    return files, {name: marking.workloads[name] for name in order if name in marking.workloads}


@cache
def _variant(answers: tuple[tuple[str, bool], ...]) -> Mapping[ObjectKey, Json]:
    """The objects, all parts included, where conditions are true or false."""
    choices = replace(_PLANNED, parts=frozenset(PARTS))
    for condition, answer in answers:
        choices = replace(choices, **_CONDITIONS[condition][0 if answer else 1])
    return {ObjectKey.from_object(obj): obj for obj in planned(choices, packaged())}


def _parts() -> Mapping[ObjectKey, str]:
    """The objects of all variants, and the names of the parts that add them; "" for none."""
    plain = {ObjectKey.from_object(obj): obj for obj in planned(_PLANNED, packaged())}
    of_parts: dict[ObjectKey, str] = {}
    for name in PARTS:
        objects = {
            ObjectKey.from_object(obj): obj for obj in planned(replace(_PLANNED, parts=frozenset({name})), packaged())
        }
        if changed := [str(key) for key, obj in plain.items() if objects.get(key) != obj]:
            raise ValueError(f"the part {name} changes objects that it doesn't add: {', '.join(changed)}")
        of_parts |= dict.fromkeys(objects.keys() - plain.keys(), name)
    answers = itertools.product((True, False), repeat=len(_CONDITIONS))
    keys = {key for given in answers for key in _variant(tuple(zip(_CONDITIONS, given, strict=True)))}
    return {key: of_parts.get(key, "") for key in sorted(keys)}


def _condition(key: ObjectKey, part: str) -> str:
    """The condition of an object beside :data:`_CONDITIONS`; "" for none."""
    conditions = [
        *([f".Values.{part}.enabled"] if part else []),
        *([".Values.crds"] if key.kind == "CustomResourceDefinition" else []),
        # The release's own namespace is there before the release.
        *(['ne (include "virt-dra.namespace" .) .Release.Namespace'] if key.name == _PLANNED.namespace else []),
    ]
    return f"and ({') ('.join(conditions)})" if len(conditions) > 1 else "".join(conditions)


def _path(key: ObjectKey, part: str) -> str:
    name = "namespace" if key.name == _PLANNED.namespace else key.name.removeprefix("virt-dra-").replace(".", "-")
    folder = part or ("crds" if key.kind == "CustomResourceDefinition" else "")
    return f"templates/{folder}{'/' if folder else ''}{name}-{key.kind.lower()}.yaml"


@dataclass
class _Marking:
    """``texts``: what stands in a template for marks ``zz-text-0-zz`` and so on. ``workloads``: what the manifests say
    that a user may change."""

    texts: list[str] = field(default_factory=list)
    workloads: dict[str, Json] = field(default_factory=dict)
    _lines: dict[str, Sequence[str]] = field(default_factory=dict)

    def lines_of(self, obj: Json) -> Sequence[str]:
        """The object's YAML with marks for what a user may write. Most objects are the same in most variants."""
        identity = json.dumps(obj)
        if identity not in self._lines:
            marked = self._scalars(self._workload(obj) if obj["kind"] in WORKLOADS else obj)
            self._lines[identity] = _verbatim(write_yaml(marked)).splitlines()
        return self._lines[identity]

    def _workload(self, obj: Json) -> Json:
        spec = obj["spec"]
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        name = obj["metadata"]["name"].removeprefix("virt-dra-")
        defaults: Json = {"enabled": False} if name in PARTS else {}
        if name in ARGUMENTS:
            defaults["arguments"] = []
            given = {*_PLANNED.operator_arguments, *_PLANNED.webhook_arguments, _GATE}
            args = [argument for argument in container["args"] if argument not in given]
            container = {**container, "args": [*args, f"zz-items-{name}-zz"]}
        # Of several replicas there may be more or fewer; a single one is for a reason that the manifest says.
        if spec.get("replicas", 1) > 1:
            defaults["replicas"] = spec["replicas"]
            spec = {**spec, "replicas": self._mark(f"{{{{ int .Values.{name}.replicas }}}}")}
        defaults["resources"] = container["resources"]
        container = {**container, "resources": f"zz-field-{name}.resources-zz"}
        pod = {**pod, PULL_SECRETS: f"zz-field-{PULL_SECRETS}-zz", "containers": [container]}
        for key, nothing in (("nodeSelector", {}), ("tolerations", [])):
            defaults[key] = pod.get(key, nothing)
            pod[key] = f"zz-field-{name}.{key}-zz"
        if self.workloads.setdefault(name, defaults) != defaults:
            raise ValueError(f"{name}: what a user may change differs between variants")
        return {**obj, "spec": {**spec, "template": {**spec["template"], "spec": pod}}}

    def _scalars(self, value: Any) -> Any:
        if value == {"ipBlock": {"cidr": _NETWORK}}:
            return "zz-items-networks-zz"
        if isinstance(value, dict):
            return {key: self._scalars(member) for key, member in value.items()}
        if isinstance(value, list):
            return [self._scalars(item) for item in value]
        return self._mark(_scalar(value)) if isinstance(value, str) and _MARKS.search(value) else value

    def _mark(self, text: str) -> str:
        if text not in self.texts:
            self.texts.append(text)
        return f"zz-text-{self.texts.index(text)}-zz"


def _scalar(text: str) -> str:
    """What stands in a template for a string with marks: a scalar of YAML."""
    pieces = _MARKS.split(text)
    literals, marks = pieces[::2], pieces[1::2]
    if any(mark in _JSON for mark in marks):
        words = [
            json.dumps(piece) if index % 2 == 0 else f"({_JSON.get(piece) or _SIMPLE[piece]})"
            for index, piece in enumerate(pieces)
            if piece
        ]
        return f"{{{{ print {' '.join(words)} | toJson }}}}"
    if not any(literals):
        (mark,) = marks
        return f"{{{{ {_SIMPLE[mark]} | quote }}}}"
    return "".join(
        [
            '"',
            *(
                _verbatim(json.dumps(piece, ensure_ascii=False)[1:-1])
                if index % 2 == 0
                else f"{{{{ {_SIMPLE[piece]} }}}}"
                for index, piece in enumerate(pieces)
            ),
            '"',
        ]
    )


def _verbatim(text: str) -> str:
    """Text that a template prints as it is."""
    return text.replace("{{", '{{ "{{" }}')


def _resolved(marked: Iterable[str], texts: Sequence[str]) -> Iterator[str]:
    """Lines of a template with everything that marks stand for."""
    for line in marked:
        if item := _ITEM_LINE.fullmatch(line):
            indent, name = item.groups()
            value, text = _ITEMS[name]
            yield f"{indent}{{{{- range .Values.{value} }}}}"
            yield f"{indent}- {text}"
            yield f"{indent}{{{{- end }}}}"
        elif member := _FIELD_LINE.fullmatch(line):
            indent, name, value = member.groups()
            yield f"{indent}{{{{- with .Values.{value} }}}}"
            yield f"{indent}{name}:"
            yield f"{indent}  {{{{- toYaml . | nindent {len(indent) + 2} }}}}"
            yield f"{indent}{{{{- end }}}}"
        else:
            yield _TEXT_MARK.sub(lambda mark: texts[int(mark[1])], line)
