"""A name that doesn't exist: the finding says which one was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.lint.test_objects import CLASS, SLICE, TEMPLATE, VMI, _changed
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.reading.documents import Document, DocumentSource
from webhooks.lint import LintSettings, lint_documents

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "my-gpu"},
    "spec": TEMPLATE["spec"]["spec"],
}
GPU = "spec.domain.devices.gpus.0"
NETWORK = [{"name": "n", "resourceClaim": {"claimName": "gup", "requestName": "gpu"}}]
HOST = {"hostDevices": [{"name": "h", "claimName": "gup", "requestName": "gpu"}]}


def _messages(*objects: Any, version: str = "1.9", **gates: bool) -> list[str]:
    judgement = lint_documents(
        [Document(obj, DocumentSource("f")) for obj in objects],
        LintSettings(),
        version=KubeVirtVersion.parse(version),
        gates=gates or None,
    )
    return [
        f"{finding.id}: {finding.field}: {finding.message}"
        for vm in judgement.subjects
        for finding in vm.findings
        if finding.severity == "denial"
    ]


@pytest.mark.parametrize(
    ("objects", "version", "parts"),
    [
        (
            (_changed(VMI, (f"{GPU}.claimName", "gup")), TEMPLATE),
            "1.9",
            (
                "kubevirt-refuses: ",
                'spec.domain.devices.gpus[0] "g": claimName "gup" is not in spec.resourceClaims; it has "gpu"',
            ),
        ),
        (
            (_changed(VMI, (f"{GPU}.requestName", "gup")), TEMPLATE),
            "1.9",
            ("request-missing: ", 'has no request "gup": it has "gpu"; name one of them'),
        ),
        (
            (_changed(VMI, ("spec.networks", NETWORK)), TEMPLATE),
            "1.9",
            (
                "kubevirt-refuses: spec.networks[0].resourceClaim.claimName: ",
                'not defined in spec.resourceClaims; it has "gpu"',
            ),
        ),
        (
            (_changed(VMI, ("spec.domain.devices", HOST)), TEMPLATE),
            "1.7.4",
            ("claim-not-listed: ", 'claimName "gup" is not in spec.resourceClaims; it has "gpu"'),
        ),
        (
            (_changed(VMI, ("spec.resourceClaims.0.resourceClaimTemplateName", "onne")), TEMPLATE),
            "1.9",
            ("template-missing: ", 'no ResourceClaimTemplate "onne" in namespace default; there is "one"'),
        ),
        (
            (_changed(VMI, ("spec.resourceClaims.0", {"name": "gpu", "resourceClaimName": "mygpu"})), CLAIM),
            "1.9",
            ("claim-missing: ", 'no ResourceClaim "mygpu" in namespace default; there is "my-gpu"'),
        ),
        (
            (
                VMI,
                CLASS,
                SLICE,
                _changed(TEMPLATE, ("spec.spec.devices.requests.0.exactly.deviceClassName", "gpu.exampel.com")),
            ),
            "1.9",
            ("class-missing: ", 'no DeviceClass "gpu.exampel.com"; there is gpu.example.com'),
        ),
    ],
)
def test_the_nearest_name_is_told(objects: tuple[Any, ...], version: str, parts: tuple[str, str]) -> None:
    messages = _messages(
        *objects,
        version=version,
        GPUsWithDRA=True,
        HostDevices=True,
        HostDevicesWithDRA=True,
        NetworkDevicesWithDRA=True,
    )
    assert [all(part in message for part in parts) for message in messages].count(True) == 1, messages
