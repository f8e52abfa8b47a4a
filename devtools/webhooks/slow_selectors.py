"""Selectors that the API server accepts and that take long here, and a cluster whose templates have them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from virt_dra.api.reading.scheme import read_object
from webhooks.lint import LintInputs, LintSettings, Preflight

DRIVER = "gpu.example.com"
TENS = "[" + ",".join(str(n) for n in range(10, 100)) + "]"


def _nested_bind(depth: int) -> str:
    """A text that doubles with each binding, formatted again and again."""
    text = "".join(f"cel.bind(x{n}, x{n - 1} + x{n - 1}, " for n in range(1, depth))
    return (
        f"cel.bind(x0, 'abcdefgh', {text}'%s%s%s'.format([x{depth - 1}, "
        f"x{depth - 1}, x{depth - 1}]).size() >= 0{')' * depth}"
    )


NINE = "[1,2,3,4,5,6,7,8,9]"
_SLOW = {
    "patterns-made-in-loops": rf"{TENS}.exists(i,{TENS}.exists(j,'a'.matches(r'\pL{{9'+'10}}'))) || true",
    "patterns-none-like-another": rf"{TENS}.all(i, {TENS}.all(j, "
    rf"!'a'.matches(r'(\pL{{900}}){{9'+string(i)+string(j)+'}}') || true))",
    "300-patterns": " || ".join(rf"'a'.matches(r'\pL{{{500 + n}}}b')" for n in range(300)) + " || true",
    "format-of-nested-bindings": f"{NINE}.all(a, {NINE}.all(b, {_nested_bind(12)}))",
    "find-all": f"{NINE}.all(a, {NINE}.all(b, cel.bind(x, '{'a' * 4000}', (x+x+x+x).findAll('a').size() > 0)))",
    "deep-equality": "cel.bind(a, [1,2,3,4,5,6,7,8], cel.bind(b, [a,a,a,a,a,a,a,a], cel.bind(c, [b,b,b,b,b,b,b,b], "
    "cel.bind(d, [c,c,c,c,c,c,c,c], cel.bind(e, [d,d,d,d,d,d,d,d], e == e && e == e && e == e)))))",
    "loops": f"{TENS}.all(i, {TENS}.all(j, {TENS}.all(k, {TENS}.all(l, i + j + k + l > 0))))",
}
_DIFFERENT = 'device.attributes["resource.kubernetes.io"].pciBusID != ""'
"""True, and different enough from device to device that each needs an evaluation of its own."""
HOSTILE = {name: f"({text}) && {_DIFFERENT}" for name, text in _SLOW.items()}
"""By the name of the template that has them."""


def cluster(templates: dict[str, str], *, namespace: str = "attacker", devices: int = 8, slices: int = 4) -> Preflight:
    """As the webhook knows it: templates with a selector each, by name, in one namespace."""
    objects = [*_published(devices, slices), *(_template(name, text, namespace) for name, text in templates.items())]
    return Preflight(LintInputs.from_objects([read_object(raw) for raw in objects]), LintSettings.for_admission())


def with_templates(before: Preflight, templates: Iterable[tuple[str, str, str]]) -> Preflight:
    """The same cluster with more templates: namespace, name, selector."""
    more = [read_object(_template(name, text, namespace)) for namespace, name, text in templates]
    return replace(before, inputs=replace(before.inputs, model=before.inputs.model.changed(more)))


def _published(devices: int, slices: int) -> list[dict[str, Any]]:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [selector]},
        }
    ]
    for number in range(slices):
        spec = {
            "driver": DRIVER,
            "nodeName": f"node-{number}",
            "pool": {"name": f"node-{number}", "generation": 1, "resourceSliceCount": 1},
            "devices": [
                {
                    "name": f"gpu-{n}",
                    "attributes": {
                        "model": {"string": f"m{n % 3}"},
                        "index": {"int": n},
                        "driverVersion": {"version": f"5.{n}.0"},
                        "resource.kubernetes.io/pciBusID": {"string": f"0000:{n:02x}:{number % 32:02x}.0"},
                    },
                    "capacity": {"memory": {"value": f"{8 * (n % 4 + 1)}Gi"}},
                }
                for n in range(devices)
            ],
        }
        objects.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"s{number}"},
                "spec": spec,
            }
        )
    return objects


def _template(name: str, text: str, namespace: str) -> dict[str, Any]:
    exactly = {"deviceClassName": DRIVER, "selectors": [{"cel": {"expression": text}}]}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }
