"""Whatever of a VM's objects is there when its launcher pod comes: it is refused, or its path suits the driver that
will serve it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from itertools import combinations, product
from typing import Any

import pytest

from devtools.webhooks.serving import launcher_pod
from virt_dra.api.integration.paths import INTEGRATION_ANNOTATION
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import format_time
from virt_dra.api.reading.scheme import read_object
from virt_dra.cluster.cluster_clock import ClusterClock
from webhooks.launcher_pod.mutation import mutate
from webhooks.lint import LintInputs, LintSettings, Preflight
from webhooks.lint.inputs import KINDS

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
WRITER, SILENT = "gpu.intel.com", "gpu.example.com"
NAMED, LOOSE = 'device.driver == "{}"', 'device.attributes[device.driver].?model.orValue("") == "wanted"'
PARTS = ("source", "class", "slice", "vmi")
SUBSETS = [frozenset(parts) for size in range(len(PARTS) + 1) for parts in combinations(PARTS, size)]


def _object(kind: str, name: str, **members: Any) -> dict[str, Any]:
    version = "kubevirt.io/v1" if kind == "VirtualMachineInstance" else "resource.k8s.io/v1"
    metadata = {
        "name": name,
        "creationTimestamp": format_time(NOW - timedelta(seconds=30)),
        **members.pop("metadata", {}),
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **members}


def _slice(driver: str, model: str) -> dict[str, Any]:
    devices = [{"name": "d", "attributes": {"model": {"string": model}}}]
    pool = {"name": "n", "generation": 1, "resourceSliceCount": 1}
    return _object(
        "ResourceSlice", f"{driver}-{model}", spec={"driver": driver, "nodeName": "n", "pool": pool, "devices": devices}
    )


def _there(parts: frozenset[str], driver: str, selector: str, origin: str) -> list[dict[str, Any]]:
    """Slices of both drivers with other devices are there always."""
    slices = [_slice(driver, "other") for driver in (WRITER, SILENT)]
    request = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpus"}}]}}
    if "source" in parts:
        template = origin == "ResourceClaimTemplate"
        slices.append(_object(origin, "t", spec={"spec": request} if template else request))
    if "class" in parts:
        slices.append(
            _object("DeviceClass", "gpus", spec={"selectors": [{"cel": {"expression": selector.format(driver)}}]})
        )
    if "slice" in parts:
        slices.append(_slice(driver, "wanted"))
    if "vmi" in parts:
        slices.append(_object("VirtualMachineInstance", "v", metadata={"namespace": "team-a", "uid": "u1"}, spec={}))
    return slices


def _path(
    parts: frozenset[str], driver: str, selector: str, origin: str, version: str, later: timedelta = timedelta()
) -> str | None:
    objects = [read_object(obj) for obj in _there(parts, driver, selector, origin)]
    world = LintInputs.from_objects(
        objects, version=KubeVirtVersion.parse(version), namespace="team-a", known_kinds=KINDS
    )
    pod = launcher_pod()
    if origin == "ResourceClaim":
        pod["spec"]["resourceClaims"] = [{"name": "c", "resourceClaimName": "t"}]
    verdict = mutate(pod, "team-a", Preflight(world, clock=lambda: NOW + later))
    if not verdict.allowed:
        return None
    record = [
        operation["value"]
        for operation in verdict.patch
        if operation["path"].endswith(INTEGRATION_ANNOTATION.replace("/", "~1"))
    ]
    return json.loads(record[0])["pairs"][0]["path"] if record else "native"


@pytest.mark.parametrize("origin", ["ResourceClaimTemplate", "ResourceClaim"])
@pytest.mark.parametrize("version", ["1.8.3", "1.9.0"])
def test_a_pod_is_refused_or_gets_the_right_path(version: str, origin: str) -> None:
    for parts, driver, selector in product(SUBSETS, (WRITER, SILENT), (NAMED, LOOSE)):
        path = _path(parts, driver, selector, origin, version)
        decided = {"source", "class"} <= parts and (selector == NAMED or "slice" in parts)
        right = "native" if driver == WRITER else "metadata-shim"
        assert path == (right if decided else None), (sorted(parts), driver, selector)


@pytest.mark.parametrize("version", ["1.7", "1.8.0"])
def test_where_the_driver_decides_nothing_no_pod_waits_for_it(version: str) -> None:
    """1.8.0 waits for the VMI instead, of which it may have left requests out."""
    for parts, driver in product(SUBSETS, (WRITER, SILENT)):
        path = _path(parts, driver, LOOSE, "ResourceClaimTemplate", version)
        assert path == ("none" if version == "1.7" else "metadata-shim" if "vmi" in parts else None), (
            sorted(parts),
            driver,
        )


def test_after_the_wait_only_objects_that_are_missing_are_waited_for() -> None:
    for parts in SUBSETS:
        path = _path(parts, WRITER, LOOSE, "ResourceClaimTemplate", "1.9.0", timedelta(hours=1))
        if not {"source", "class"} <= parts or not {"slice", "vmi"} & parts:
            assert path is None, sorted(parts)
        else:
            assert path == ("native" if "slice" in parts else "metadata-shim"), sorted(parts)


@pytest.mark.parametrize("slow", [timedelta(), timedelta(hours=1)])
def test_the_wait_is_as_long_for_a_clock_that_is_slow(slow: timedelta) -> None:
    """To whom all objects are of the future."""
    passed = [0.0]
    clock = ClusterClock(lambda: NOW - slow, lambda: passed[0])
    objects = [
        read_object(obj)
        for obj in _there(frozenset({"source", "class", "vmi"}), WRITER, LOOSE, "ResourceClaimTemplate")
    ]
    world = LintInputs.from_objects(
        objects, version=KubeVirtVersion.parse("1.9.0"), namespace="team-a", known_kinds=KINDS
    )
    allowed = []
    for minute in range(0, 70, 2):
        passed[0] = 60.0 * minute + 1
        allowed.append(
            mutate(launcher_pod(), "team-a", Preflight(world, clock=clock, count_from=clock.count_from)).allowed
        )
    assert allowed[0] is False
    assert all(allowed[2:])


def test_a_refusal_is_short_and_cheap_however_much_is_missing() -> None:
    """2,000 claims of templates that don't exist, and a template with requests of as many classes that don't."""
    asked = [{"name": f"r{n}", "exactly": {"deviceClassName": f"class-{n}"}} for n in range(2000)]
    template = _object("ResourceClaimTemplate", "t", spec={"spec": {"devices": {"requests": asked}}})
    world = LintInputs.from_objects(
        [read_object(template)], version=KubeVirtVersion.parse("1.9.0"), namespace="team-a", known_kinds=KINDS
    )
    knowledge = Preflight(world, LintSettings.for_admission(), clock=lambda: NOW)
    many = launcher_pod([(f"c{n}", "r") for n in range(2000)])
    many["spec"]["resourceClaims"] = [{"name": f"c{n}", "resourceClaimTemplateName": f"t{n}"} for n in range(2000)]
    wide = launcher_pod([("c", f"r{n}") for n in range(2000)])
    for pod in (many, wide):
        began = time.process_time()
        verdict = mutate(pod, "team-a", knowledge)
        assert time.process_time() - began < 3.0  # 0.06 s on an idle machine; quadratic work would take a minute
        assert not verdict.allowed
        assert len(verdict.causes) <= 9
        assert len(verdict.message) < 4000
