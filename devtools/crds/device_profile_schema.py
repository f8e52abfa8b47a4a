"""What the CRD of DeviceProfiles has beside the types: bounds, patterns, CEL rules, and what ``kubectl explain
deviceprofiles`` says. It refuses what :mod:`virt_dra.api.profiles.rules` refuses, but for what a schema can't say:
whether labels are well-formed, how large parameters are, and whether an expression compiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from devtools.crds.node_policy_schema import LABEL_SELECTOR_DESCRIPTIONS, LABEL_SELECTORS
from devtools.crds.structural import Additions, Descriptions, cel_rule
from virt_dra.api import kubevirt_v1 as kubevirt
from virt_dra.api import resource_v1 as resource
from virt_dra.api.meta import Condition
from virt_dra.api.names import LABEL_MAX, SUBDOMAIN_MAX
from virt_dra.api.profiles import device_profile_v1alpha1 as profiles
from virt_dra.api.profiles.profile_limits import CAPACITIES_MAX, CONFIGURATIONS_MAX, DURATION, NEVER, TOLERATIONS_MAX
from virt_dra.api.validation.claims import ALTERNATIVES_MAX, CONSTRAINTS_MAX, REQUESTS_MAX
from virt_dra.api.validation.expressions import EXPRESSION_MAX, SELECTORS_MAX
from virt_dra.api.validation.formats import DRIVER_MAX, IDENTIFIER_MAX, QUALIFIED_MAX
from virt_dra.api.validation.taints import EFFECTS, OPERATORS
from virt_dra.api.wire import Json, Wire

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_PART: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_STANDARD: Final = "|".join(profiles.STANDARD_ATTRIBUTES)
_GIVEN: Final = "has(self.{0}) && size(self.{0}) > 0"
_HAS_ALTERNATIVES: Final = _GIVEN.format("firstAvailable")


def _text(pattern: str, most: int, least: int = 0) -> Json:
    return {"pattern": f"^({pattern})$", "maxLength": most} | ({"minLength": least} if least else {})


def _list(most: int, type_: str = "atomic", key: str = "") -> Json:
    keys = {"x-kubernetes-list-map-keys": [key]} if key else {}
    return {"maxItems": most, "x-kubernetes-list-type": type_, **keys}


def _names(most: int, longest: int) -> Json:
    """A list of names. Their length bounds the cost of rules about them."""
    return {"items": {"type": "string", "maxLength": longest}, **_list(most, "set")}


def _domain_within(field: str, most: int) -> Json:
    """A rule that the part in front of the slash isn't longer: a pattern can only bound the whole."""
    return cel_rule(
        f"!has(self.{field}) || self.{field}.indexOf('/') <= {most}",
        f"the part of {field} in front of the slash must be no more than {most} characters",
        f".{field}",
    )


_ASKED: Final[Mapping[str, Json]] = {
    "name": _text(_LABEL, LABEL_MAX, 1),
    "deviceClassName": _text(f"({_SUBDOMAIN})?", SUBDOMAIN_MAX),
    "selectors": _list(SELECTORS_MAX),
    "tolerations": _list(TOLERATIONS_MAX),
}
_NAMES_OF_REQUESTS: Final = (
    "!has(self.config) || self.config.all(entry, !has(entry.requests) || "
    "entry.requests.map(request, request.split('/')).all(parts, self.devices.exists(device, device.name == parts[0] && "
    "(size(parts) == 1 || (size(parts) == 2 && has(device.firstAvailable) && "
    "device.firstAvailable.exists(alternative, alternative.name == parts[1]))))))"
)

ADDITIONS: Final[Mapping[type[Wire], Additions]] = {
    **LABEL_SELECTORS,
    profiles.DeviceProfile: Additions(
        itself={
            "required": ["spec"],
            "x-kubernetes-validations": [
                cel_rule(
                    f"!self.metadata.name.contains('.') && size(self.metadata.name) <= {LABEL_MAX}",
                    "metadata.name must be a label: claims are called after it",
                )
            ],
        }
    ),
    profiles.DeviceProfileSpec: Additions(
        itself={
            "required": ["devices"],
            "x-kubernetes-validations": [
                cel_rule(
                    f"self.devices.map(device, has(device.count) ? device.count : 1).sum() <= {REQUESTS_MAX}",
                    f"a profile has at most {REQUESTS_MAX} devices, which are requests of one claim",
                    ".devices",
                ),
                cel_rule(
                    "!has(self.align) || self.align.all(alignment, !has(alignment.devices) || "
                    "alignment.devices.all(name, self.devices.exists(device, device.name == name)))",
                    "align names a device that the profile doesn't have",
                    ".align",
                ),
                cel_rule(_NAMES_OF_REQUESTS, "config names a device that the profile doesn't have", ".config"),
            ],
        },
        fields={
            "devices": {"minItems": 1, **_list(REQUESTS_MAX, "map", "name")},
            "align": _list(CONSTRAINTS_MAX),
            "config": _list(CONFIGURATIONS_MAX),
        },
    ),
    profiles.ProfileDevice: Additions(
        itself={
            "required": ["name"],
            "x-kubernetes-validations": [
                cel_rule(
                    f"({_GIVEN.format('deviceClassName')}) != ({_HAS_ALTERNATIVES})",
                    "exactly one of deviceClassName and firstAvailable must be specified",
                ),
                cel_rule(
                    f"!({_HAS_ALTERNATIVES}) || (!({_GIVEN.format('selectors')}) && "
                    f"!({_GIVEN.format('tolerations')}) && !has(self.capacity))",
                    "selectors, tolerations and capacity may not be specified together with firstAvailable",
                ),
                cel_rule(
                    f"!has(self.virtualGPUOptions) || !has(self.type) || self.type == '{profiles.GPU_TYPE}'",
                    f"virtualGPUOptions may only be specified for type {profiles.GPU_TYPE}",
                    ".virtualGPUOptions",
                ),
            ],
        },
        fields={
            **_ASKED,
            "type": {"enum": list(profiles.DEVICE_TYPES)},
            "count": {"minimum": 1, "maximum": REQUESTS_MAX},
            "firstAvailable": _list(ALTERNATIVES_MAX, "map", "name"),
        },
    ),
    resource.DeviceSubRequest: Additions(
        itself={"required": ["name", "deviceClassName"]},
        fields={
            **_ASKED,
            "deviceClassName": _text(_SUBDOMAIN, SUBDOMAIN_MAX, 1),
            "allocationMode": {"enum": ["", resource.EXACT_COUNT]},
            "count": {"minimum": 0, "maximum": 1},
            "derivedAttributes": _list(0),
        },
    ),
    resource.DeviceSelector: Additions(itself={"required": ["cel"]}),
    resource.CELDeviceSelector: Additions(
        itself={"required": ["expression"]}, fields={"expression": {"minLength": 1, "maxLength": EXPRESSION_MAX}}
    ),
    resource.DeviceToleration: Additions(
        itself={
            "x-kubernetes-validations": [
                cel_rule(
                    "!has(self.operator) || self.operator != 'Exists' || !has(self.value) || self.value == ''",
                    "value must be empty for operator Exists",
                    ".value",
                ),
                _domain_within("key", SUBDOMAIN_MAX),
            ]
        },
        fields={
            "key": _text(f"(({_SUBDOMAIN}/)?{_LABEL_PART})?", SUBDOMAIN_MAX + 1 + LABEL_MAX),
            "operator": {"enum": ["", *OPERATORS]},
            "value": _text(f"({_LABEL_PART})?", LABEL_MAX),
            "effect": {"enum": ["", *EFFECTS]},
        },
    ),
    resource.CapacityRequirements: Additions(fields={"requests": {"maxProperties": CAPACITIES_MAX}}),
    profiles.ProfileAlignment: Additions(
        itself={"required": ["attribute"], "x-kubernetes-validations": [_domain_within("attribute", DRIVER_MAX)]},
        fields={
            "devices": _names(REQUESTS_MAX, LABEL_MAX),
            "attribute": _text(
                f"{_STANDARD}|{_SUBDOMAIN}/[A-Za-z_][A-Za-z0-9_]{{0,{IDENTIFIER_MAX - 1}}}", QUALIFIED_MAX
            ),
            "mode": {"enum": list(profiles.ALIGNMENT_MODES)},
        },
    ),
    resource.DeviceClaimConfiguration: Additions(
        itself={"required": ["opaque"]}, fields={"requests": _names(REQUESTS_MAX, 2 * LABEL_MAX + 1)}
    ),
    resource.OpaqueDeviceConfiguration: Additions(
        itself={"required": ["driver", "parameters"]},
        fields={"driver": _text(_SUBDOMAIN.replace("a-z", "a-zA-Z"), DRIVER_MAX, 1)},
    ),
    profiles.ProfileKeep: Additions(
        fields={"stoppedFor": _text(DURATION, 32, 1), "onNodeLoss": _text(f"{NEVER}|{DURATION}", 32, 1)}
    ),
    profiles.DeviceProfileStatus: Additions(
        fields={
            "vms": {"minimum": 0},
            "fittingNodes": {"minimum": 0},
            "message": {"maxLength": 32768},
            "conditions": _list(16, "map", "type"),
        }
    ),
    Condition: Additions(
        itself={"required": ["type", "status"]},
        fields={
            "type": {"maxLength": 316},
            "status": {"enum": ["True", "False", "Unknown"]},
            "lastTransitionTime": {"format": "date-time"},
            "message": {"maxLength": 32768},
        },
    ),
}

_SHARED_DESCRIPTIONS: Final = {
    "deviceClassName": "The DeviceClass that the device is of.",
    "selectors": "Conditions that the device satisfies, all of them.",
    "tolerations": "Taints of devices that don't matter.",
    "capacity": "How much of the device's capacity is needed.",
}

DESCRIPTIONS: Final[Mapping[type[Wire], Descriptions]] = {
    **LABEL_SELECTOR_DESCRIPTIONS,
    profiles.DeviceProfile: Descriptions(
        "A named set of devices. A VM asks for it by the annotation virt-dra.io/devices in its template or its "
        "instancetype: two-h100-and-nic, or gpu=nvidia-h100 x 2, nic=cx7. virt-dra render-profile shows what it gets.",
        {"spec": "The devices, and who may ask for them.", "status": "Who uses the profile, and where it fits."},
    ),
    profiles.DeviceProfileSpec: Descriptions(
        "The devices of the profile, which are requests of one claim.",
        {
            "namespaceSelector": "The namespaces whose VMs may ask for the profile, by their labels; all without it.",
            "devices": "The devices. Each is an entry of the VM of its own.",
            "align": "Devices that have an attribute in common.",
            "config": "Settings for drivers. Their requests are devices of the profile, or device/alternative.",
            "keep": "VMs keep the devices while they are stopped, unless they say otherwise themselves.",
        },
    ),
    profiles.ProfileDevice: Descriptions(
        "A device, count times.",
        {
            "name": "Its name in the VM, with a number if there are several.",
            "type": "GPU (the default), HostDevice, or Network: an SR-IOV interface whose network is the claim's.",
            "count": "How many; 1 without it.",
            **_SHARED_DESCRIPTIONS,
            "firstAvailable": "Alternatives, of which the first that is free is taken. In place of the fields above.",
            "tag": "The tag by which the guest finds the device.",
            "virtualGPUOptions": "Options of a virtual GPU, such as its display.",
        },
    ),
    resource.DeviceSubRequest: Descriptions(
        "An alternative: one device.",
        {
            "name": "The alternative's name.",
            **_SHARED_DESCRIPTIONS,
            "allocationMode": "ExactCount, if anything.",
            "count": "1, if anything: a VM takes one device of a request.",
            "derivedAttributes": "Not for profiles.",
        },
    ),
    resource.DeviceDerivedAttribute: Descriptions(
        "An attribute that an expression computes. Not for profiles.",
        {"name": "Not for profiles.", "expression": "Not for profiles."},
    ),
    resource.DeviceSelector: Descriptions("A condition.", {"cel": "An expression in CEL."}),
    resource.CELDeviceSelector: Descriptions(
        "An expression in CEL.",
        {"expression": 'True for devices that are selected: device.attributes["gpu.example.com"].model == "H100".'},
    ),
    resource.DeviceToleration: Descriptions(
        "Taints that are tolerated.",
        {
            "key": "The taint's key; every key without it, with operator Exists.",
            "operator": "Equal (the default) or Exists.",
            "value": "The taint's value, for operator Equal.",
            "effect": "NoSchedule, NoExecute or None; every effect without it.",
            "tolerationSeconds": "How long NoExecute is tolerated; for ever without it.",
        },
    ),
    resource.CapacityRequirements: Descriptions(
        "Amounts of the device's capacity.", {"requests": "Capacity → the amount that is needed."}
    ),
    profiles.ProfileAlignment: Descriptions(
        "Devices that have an attribute in common.",
        {
            "devices": "Names of the profile's devices; all of them without it. Copies are aligned each by itself.",
            "attribute": "pcieRoot, numaNode, or an attribute of a driver with its domain: gpu.example.com/board.",
            "mode": "Required (the default): only such devices do. Preferred: such devices where a node has them.",
        },
    ),
    resource.DeviceClaimConfiguration: Descriptions(
        "Settings for a driver.",
        {"requests": "What they are for; all devices without it.", "opaque": "The driver's own settings."},
    ),
    resource.OpaqueDeviceConfiguration: Descriptions(
        "Settings that only their driver understands.",
        {"driver": "The driver's name.", "parameters": "An object of the driver's, at most 10 KiB."},
    ),
    profiles.ProfileKeep: Descriptions(
        "How long devices are kept.",
        {
            "stoppedFor": "How long a stopped VM keeps them: 24h, or 1d12h. Until they are released without it.",
            "onNodeLoss": "After how long without its node the VM may start elsewhere, or never.",
        },
    ),
    kubevirt.VGPUOptions: Descriptions("Options of a virtual GPU.", {"display": "Its display."}),
    kubevirt.VGPUDisplayOptions: Descriptions(
        "The display of a virtual GPU.",
        {"enabled": "Whether it has one; true without it.", "ramFB": "The display before the guest's driver runs."},
    ),
    kubevirt.RamFB: Descriptions("Whether it is there.", {"enabled": "True without it."}),
    profiles.DeviceProfileStatus: Descriptions(
        "Who uses the profile, and where it fits.",
        {
            "vms": "How many VMs ask for it.",
            "fittingNodes": "On how many nodes a VM that asks for it would fit now.",
            "reason": "Why it fits on no node, in one word.",
            "message": "Why it fits on no node, in a sentence.",
            "conditions": "What else is to be said of the profile.",
        },
    ),
    Condition: Descriptions(
        "A condition.",
        {
            "type": "What it is about.",
            "status": "True, False or Unknown.",
            "observedGeneration": "The generation of the profile that it is about.",
            "lastTransitionTime": "Since when the status is what it is.",
            "reason": "Why, in one word.",
            "message": "Why, in a sentence.",
        },
    ),
}
