"""What the lint says of objects as they are written is what a real API server answers under strict field validation, as
kubectl asks."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from devtools.cluster.admin_requests import RequestError
from devtools.cluster.control_plane import ControlPlane
from tests.cli.lint.test_objects import CLASS, SLICE, TEMPLATE, V1BETA1_STYLE, _changed
from tests.sampling import sample
from tests.simulator.odd_inputs import inputs
from virt_dra.api.reading.documents import Document, DocumentSource
from virt_dra.api.resource_v1 import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from webhooks.lint import LintSettings, lint_documents

pytestmark = pytest.mark.control_plane

KINDS = {kind.KIND: kind for kind in (DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice)}
SERVED = ("resource.k8s.io/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2")


def _answer(plane: ControlPlane, namespace: str, raw: Any) -> str | None:
    """Why the API server refuses to create an object; None where it doesn't."""
    kind = KINDS[raw["kind"]]
    place = f"/namespaces/{namespace}" if kind.NAMESPACED else ""
    try:
        plane.request("POST", f"/apis/{raw['apiVersion']}{place}/{kind.PLURAL}?dryRun=All&fieldValidation=Strict", raw)
    except RequestError as error:
        return error.message
    return None


def _said(namespace: str, raw: Any) -> list[str]:
    judgement = lint_documents(
        [Document(copy.deepcopy(raw), DocumentSource("object"))], LintSettings(), namespace=namespace
    )
    return [str(finding) for judged in judgement.others for finding in judged.findings if finding.severity == "denial"]


def _comparable(raw: Any) -> bool:
    """Of what can be asked: a kind that is served, in the namespace of the request. Whether that permits admin access,
    files don't say; and text between braces is refused by the lint alone."""
    if (
        not isinstance(raw, dict)
        or not isinstance(raw.get("kind"), str)
        or raw["kind"] not in KINDS
        or raw.get("apiVersion") not in SERVED
    ):
        return False
    text = json.dumps(raw)
    if '"adminAccess": true' in text or "{{" in text:
        return False
    metadata = raw.get("metadata")
    return not isinstance(metadata, dict) or "namespace" not in metadata


@pytest.mark.parametrize(
    "raw",
    [
        TEMPLATE,
        CLASS,
        SLICE,
        V1BETA1_STYLE,
        {**V1BETA1_STYLE, "apiVersion": "resource.k8s.io/v1beta1"},
        {**TEMPLATE, "apiVersion": "resource.k8s.io/v1beta1"},
        _changed(TEMPLATE, ("spec.spec.devices.requests.0.exactly.alocationMode", "All")),
        _changed(TEMPLATE, ("metadata", {"generateName": "One-"})),
        _changed(TEMPLATE, ("metadata", {"generateName": "one-"})),
        _changed(CLASS, ("metadata", {"generateName": "One-"})),
        _changed(CLASS, ("spec.selectors.0.cel.expression", "device.")),
        _changed(SLICE, ("spec.pool.resourceSliceCount", 0)),
        _changed(SLICE, ("spec.devices.0.attributes.model", {"text": "T4"})),
    ],
)
def test_an_object_is_refused_by_both_or_by_neither(control_plane: ControlPlane, namespace: str, raw: Any) -> None:
    answer, said = _answer(control_plane, namespace, raw), _said(namespace, raw)
    assert (answer is None) == (said == []), (answer, said)


@given(inputs())
@settings(max_examples=sample(80), deadline=None, suppress_health_check=list(HealthCheck))
def test_random_objects_are_refused_by_both_or_by_neither(
    control_plane: ControlPlane, namespace: str, objects: list[Any]
) -> None:
    for raw in filter(_comparable, objects):
        answer, said = _answer(control_plane, namespace, raw), _said(namespace, raw)
        assert (answer is None) == (said == []), (raw, answer, said)
