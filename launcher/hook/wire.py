"""KubeVirt's messages for hooks, as tables of fields (K-11.5, K-11.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from virt_dra.protobuf.messages import FieldForm, MessagePackage, Table, WireField

_INFO: Final[Table] = {
    "InfoParams": (),
    "InfoResult": (
        WireField(1, "name"),
        WireField(3, "hookPoints", "HookPoint", FieldForm.REPEATED),
        WireField(4, "versions", form=FieldForm.REPEATED),
    ),
    "HookPoint": (WireField(1, "name"), WireField(2, "priority", "int32")),
}
_DEFINE: Final[Table] = {
    "OnDefineDomainParams": (WireField(1, "domainXML", "bytes"), WireField(2, "vmi", "bytes")),
    "OnDefineDomainResult": (WireField(1, "domainXML", "bytes"),),
}
_CLOUD_INIT: Final[Table] = {
    "PreCloudInitIsoParams": (
        WireField(1, "cloudInitNoCloudSource", "bytes"),
        WireField(2, "vmi", "bytes"),
        WireField(3, "cloudInitData", "bytes"),
    ),
    "PreCloudInitIsoResult": (
        WireField(1, "cloudInitNoCloudSource", "bytes"),
        WireField(3, "cloudInitData", "bytes"),
    ),
}
_SHUTDOWN: Final[Table] = {"ShutdownParams": (), "ShutdownResult": ()}
_PLUGIN: Final[Table] = {
    "SidecarContext": (WireField(1, "invocation_context"),),
    "MutateDomainRequest": (
        WireField(1, "domain_type"),
        WireField(2, "domain", "bytes"),
        WireField(3, "vmi", "bytes"),
        WireField(4, "sidecar_context", "SidecarContext"),
    ),
    "MutateDomainResponse": (WireField(1, "domain", "bytes"),),
}

INFO: Final = MessagePackage("kubevirt.hooks.info", _INFO)
CALLBACKS: Final[Mapping[str, MessagePackage]] = {
    "v1alpha1": MessagePackage("kubevirt.hooks.v1alpha1", _DEFINE),
    "v1alpha2": MessagePackage("kubevirt.hooks.v1alpha2", {**_DEFINE, **_CLOUD_INIT}),
    "v1alpha3": MessagePackage("kubevirt.hooks.v1alpha3", {**_DEFINE, **_CLOUD_INIT, **_SHUTDOWN}),
}
"""By version, as the Info service lists them; KubeVirt takes the newest that it knows."""
PLUGIN: Final = MessagePackage("kubevirt.hooks.plugins.v1alpha1", _PLUGIN)
