"""DeviceClass (C-14.6). Two classes may have one extended resource name; the scheduler's cache of names chooses one."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.names import label_key
from virt_dra.api.resource_v1 import DeviceClass, DeviceClassConfiguration
from virt_dra.api.validation.expressions import configuration, selectors, unchecked
from virt_dra.api.validation.field_errors import Errors, each_invalid
from virt_dra.api.validation.formats import items
from virt_dra.api.validation.rules import Rules

CONFIGURATIONS_MAX = 32


def device_class(obj: DeviceClass, old: DeviceClass | None, rules: Rules) -> Errors:
    """The faults of a class; ``old``: what an update replaces. Only an unchanged list counts as stored."""
    spec = obj.spec
    check = None if old is not None and spec.selectors == old.spec.selectors else rules.check_selector or unchecked
    yield from selectors(spec.selectors, "spec.selectors", check)
    stored = old is not None and spec.config == old.spec.config

    def one_configuration(entry: DeviceClassConfiguration, at: str) -> Errors:
        yield from configuration(entry.opaque, at, stored=stored)

    yield from items(spec.config, "spec.config", one_configuration, CONFIGURATIONS_MAX)
    name = spec.extended_resource_name
    if name is not None:
        yield from each_invalid("spec.extendedResourceName", name, _extended_resource_name(name))


def _extended_resource_name(name: str) -> Iterator[str]:
    """Faults of a name like ``example.com/gpu``: not of kubernetes.io, and valid as a quota's ``requests.…``."""
    if "/" not in name:
        yield "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
    elif "kubernetes.io/" in name:
        yield 'must not have "kubernetes.io/" domain'
    if name.startswith("requests."):
        yield 'must not have "requests." prefix'
    yield from label_key(f"requests.{name}")
