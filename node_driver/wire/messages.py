"""The kubelet's messages, as tables of fields (D-5, D-9, D-37, D-56)."""

from __future__ import annotations

from typing import Final

from virt_dra.protobuf.messages import FieldForm, MessagePackage, Table, WireField

_REGISTRATION: Final[Table] = {
    "InfoRequest": (),
    "PluginInfo": (
        WireField(1, "type"),
        WireField(2, "name"),
        WireField(3, "endpoint"),
        WireField(4, "supported_versions", form=FieldForm.REPEATED),
    ),
    "RegistrationStatus": (WireField(1, "plugin_registered", "bool"), WireField(2, "error")),
    "RegistrationStatusResponse": (),
}

_DRA: Final[Table] = {
    "Claim": (WireField(1, "namespace"), WireField(2, "uid"), WireField(3, "name")),
    "NodePrepareResourcesRequest": (WireField(1, "claims", "Claim", FieldForm.REPEATED),),
    "NodePrepareResourcesResponse": (WireField(1, "claims", "NodePrepareResourceResponse", FieldForm.MAP),),
    "NodePrepareResourceResponse": (
        WireField(1, "devices", "Device", FieldForm.REPEATED),
        WireField(2, "error"),
    ),
    "Device": (
        WireField(1, "request_names", form=FieldForm.REPEATED),
        WireField(2, "pool_name"),
        WireField(3, "device_name"),
        WireField(4, "cdi_device_ids", form=FieldForm.REPEATED),
        WireField(5, "share_id", form=FieldForm.OPTIONAL),
    ),
    "NodeUnprepareResourcesRequest": (WireField(1, "claims", "Claim", FieldForm.REPEATED),),
    "NodeUnprepareResourcesResponse": (WireField(1, "claims", "NodeUnprepareResourceResponse", FieldForm.MAP),),
    "NodeUnprepareResourceResponse": (WireField(1, "error"),),
}

_HEALTH: Final[Table] = {
    "NodeWatchResourcesRequest": (),
    "DeviceIdentifier": (WireField(1, "pool_name"), WireField(2, "device_name")),
    "DeviceHealth": (
        WireField(1, "device", "DeviceIdentifier"),
        WireField(2, "health", "HealthStatus"),
        WireField(3, "last_updated_time", "int64"),
        WireField(4, "health_check_timeout_seconds", "int64"),
        WireField(5, "message"),
    ),
    "NodeWatchResourcesResponse": (WireField(1, "devices", "DeviceHealth", FieldForm.REPEATED),),
}
_HEALTH_STATUS: Final = {"HealthStatus": ("UNKNOWN", "HEALTHY", "UNHEALTHY")}

REGISTRATION: Final = MessagePackage("pluginregistration", _REGISTRATION)
DRA_V1: Final = MessagePackage("k8s.io.kubelet.pkg.apis.dra.v1", _DRA)
DRA_V1BETA1: Final = MessagePackage(
    "k8s.io.kubelet.pkg.apis.dra.v1beta1",
    {**_DRA, "Device": tuple(field for field in _DRA["Device"] if field.name != "share_id")},
)
HEALTH_V1: Final = MessagePackage("v1", _HEALTH, _HEALTH_STATUS)
HEALTH_V1ALPHA1: Final = MessagePackage("v1alpha1", _HEALTH, _HEALTH_STATUS)
