"""What the CRD of VirtDraNodePolicies has beside the types: bounds, patterns, CEL rules, and what ``kubectl explain
virtdranodepolicies`` says. The bounds are those of :mod:`virt_dra.api.policies.node_policy_limits`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from devtools.crds.structural import Additions, Descriptions, cel_rule
from virt_dra.api.core_v1 import LabelSelector, NodeSelectorRequirement
from virt_dra.api.policies import node_policy_limits as limits
from virt_dra.api.policies import node_policy_v1alpha1 as policies
from virt_dra.api.wire import Json, Wire


def _anchored(pattern: str, most: int) -> Json:
    return {"pattern": f"^{pattern}$", "maxLength": most}


_ID: Final = _anchored(limits.ID, 4)
_PCI_ADDRESS: Final = _anchored(limits.PCI_ADDRESS, 12)
_DRIVER: Final = _anchored(limits.DRIVER, 63)
_TYPE: Final = {"minLength": 1, **_anchored(limits.MDEV_TYPE, 63)}
_COUNT: Final = {"minimum": 1, "maximum": limits.COUNT_MAX}
_INDEX: Final = {"minimum": 0, "maximum": limits.INDEX_MAX}
_SHORT: Final = {"maxLength": 317}
_DIVIDED: Final = (
    "(has(self.mdevTypes) && size(self.mdevTypes) > 0) || (has(self.vgpuProfiles) && size(self.vgpuProfiles) > 0)"
)


def _list(most: int, key: str = "") -> Json:
    if not key:
        return {"maxItems": most, "x-kubernetes-list-type": "atomic"}
    return {"maxItems": most, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


LABEL_SELECTORS: Final[Mapping[type[Wire], Additions]] = {
    LabelSelector: Additions(fields={"matchExpressions": _list(limits.SELECTORS_MAX)}),
    NodeSelectorRequirement: Additions(
        itself={
            "required": ["key", "operator"],
            "x-kubernetes-validations": [
                cel_rule(
                    "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
                    "values must be specified for In and NotIn, and may not be for Exists and DoesNotExist",
                    ".values",
                )
            ],
        },
        fields={
            "key": _SHORT,
            "operator": {"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
            "values": _list(limits.SELECTORS_MAX),
        },
    ),
}


ADDITIONS: Final[Mapping[type[Wire], Additions]] = {
    policies.VirtDraNodePolicy: Additions(itself={"required": ["spec"]}),
    policies.NodePolicySpec: Additions(
        itself={"required": ["deviceSets"]},
        fields={"deviceSets": {"minItems": 1, **_list(limits.SETS_MAX, "name")}},
    ),
    policies.PolicyDeviceSet: Additions(
        itself={
            "required": ["name", "select"],
            "x-kubernetes-validations": [
                cel_rule(
                    "!has(self.mdevTypes) || size(self.mdevTypes) == 0 || "
                    "((!has(self.vgpuProfiles) || size(self.vgpuProfiles) == 0) && !has(self.numVFs))",
                    "mdevTypes may not be specified together with vgpuProfiles or numVFs; make two sets",
                    ".mdevTypes",
                ),
                cel_rule(
                    f"!({_DIVIDED}) || (!has(self.driver) && !has(self.cards))",
                    "driver and cards may not be specified for mdevTypes and vgpuProfiles",
                ),
                cel_rule(
                    f"!has(self.mixedProfiles) || {_DIVIDED}",
                    "mixedProfiles may only be specified for mdevTypes and vgpuProfiles",
                    ".mixedProfiles",
                ),
                cel_rule(
                    "(has(self.mdevTypes) && size(self.mdevTypes) > 0) || self.select.all(selector, "
                    "!has(selector.address) || selector.address.matches("
                    f"r'^{limits.PCI_ADDRESS}$'))",
                    "address must be a PCI address, such as 0000:41:00.0; only mdevTypes take names of other parents",
                    ".select",
                ),
            ],
        },
        fields={
            "name": {"minLength": 1, **_anchored("[a-z0-9]([-a-z0-9]*[a-z0-9])?", 63)},
            "select": {"minItems": 1, **_list(limits.SELECTORS_MAX)},
            "iommuGroups": {"enum": list(limits.FORMS)},
            "cards": {"enum": list(limits.FORMS)},
            "driver": {"minLength": 1, **_DRIVER},
            "sanitize": {"enum": list(limits.SANITIZING)},
            "numVFs": _INDEX,
            "mdevTypes": _list(limits.TYPES_MAX, "type"),
            "vgpuProfiles": _list(limits.TYPES_MAX, "profile"),
        },
    ),
    policies.FunctionSelector: Additions(
        fields={
            "vendor": _ID,
            "device": _ID,
            "subsystemVendor": _ID,
            "subsystemDevice": _ID,
            "class": _anchored(limits.CLASS, 6),
            "address": _anchored(limits.PARENT, 63),
            "physicalFunction": _PCI_ADDRESS,
            "driver": _DRIVER,
            "numaNode": {"minimum": 0, "maximum": limits.NUMA_NODE_MAX},
        }
    ),
    policies.VfIndexRange: Additions(
        itself={
            "x-kubernetes-validations": [
                cel_rule(
                    "!has(self.last) || self.last >= (has(self.first) ? self.first : 0)", "last must not be below first"
                )
            ]
        },
        fields={"first": _INDEX, "last": _INDEX},
    ),
    policies.PolicyMdevType: Additions(itself={"required": ["type"]}, fields={"type": _TYPE, "max": _COUNT}),
    policies.PolicyVgpuProfile: Additions(itself={"required": ["profile"]}, fields={"profile": _TYPE, "max": _COUNT}),
    **LABEL_SELECTORS,
}  # fmt: skip

LABEL_SELECTOR_DESCRIPTIONS: Final[Mapping[type[Wire], Descriptions]] = {
    LabelSelector: Descriptions(
        "Labels that must all agree.",
        {"matchLabels": "Labels with their values.", "matchExpressions": "Conditions on labels."},
    ),
    NodeSelectorRequirement: Descriptions(
        "A condition on a label.",
        {
            "key": "The label.",
            "operator": "In, NotIn, Exists or DoesNotExist.",
            "values": "The values for In and NotIn.",
        },
    ),
}
DESCRIPTIONS: Final[Mapping[type[Wire], Descriptions]] = {
    policies.VirtDraNodePolicy: Descriptions(
        "Which devices of nodes virt-dra's node driver publishes for VMs, and how. Without a policy it publishes none; "
        "what a node needs itself (its disks, its console, its routes) is never published. "
        "virt-dra node-driver --plan shows what a policy does.",
        {"spec": "The devices and the nodes."},
    ),
    policies.NodePolicySpec: Descriptions(
        "Sets of devices, on which nodes.",
        {
            "nodeSelector": "The nodes that the policy is for, by their labels; all nodes without it.",
            "listAttributes": "Publish lists where they say more (numaNode with the nearest nodes of the socket). Only "
            "for clusters with the feature gate DRAListTypeAttributes: others refuse the devices.",
            "deviceSets": "The devices. The first set that selects a device has it; policies go by name.",
        },
    ),
    policies.PolicyDeviceSet: Descriptions(
        "PCI functions, and how they are published.",
        {
            "name": "The set's name within the policy, for messages.",
            "select": "The functions: those for which all fields of any item hold. {} selects all.",
            "iommuGroups": "together (default): the functions of an IOMMU group are one device, named by the first "
            "that is selected. each: each selected function is a device; the group's devices go to one pod at a time.",
            "cards": "each (default): each function of a card is a device. together: all functions of a slot are one.",
            "driver": "The VFIO driver to bind; without it the one that the kernel's modules.alias names, or vfio-pci.",
            "sanitize": "Before another claim gets the device: none, reset (default) or erase (NVMe).",
            "numVFs": "The virtual functions that each selected physical function gets when the driver starts and "
            "none is in use. They are published in its place.",
            "mdevTypes": "Publish mediated devices of these types of the selected cards.",
            "vgpuProfiles": "Publish these vGPU profiles of the selected cards' virtual functions.",
            "mixedProfiles": "The cards can have several types or profiles at a time.",
        },
    ),
    policies.FunctionSelector: Descriptions(
        "PCI functions for which all given fields hold.",
        {
            "vendor": "Four hexadecimal digits: 10de.",
            "device": "Four hexadecimal digits.",
            "subsystemVendor": "Four hexadecimal digits.",
            "subsystemDevice": "Four hexadecimal digits.",
            "class": "2, 4 or 6 hexadecimal digits that the class begins with: 0302.",
            "address": "The function's address: 0000:41:00.0. For mdevTypes also the name of another parent.",
            "physicalFunction": "Virtual functions of the physical function at this address.",
            "vfIndexes": "Virtual functions with these indexes.",
            "driver": "The driver that it is bound to now; an empty text for none.",
            "numaNode": "The NUMA node that it is on.",
        },
    ),
    policies.VfIndexRange: Descriptions(
        "A range of indexes.", {"first": "The first; 0 without it.", "last": "The last, included; all without it."}
    ),
    policies.PolicyMdevType: Descriptions(
        "A type of mediated devices.",
        {"type": "Its id (nvidia-35) or its name (GRID T4-1Q).", "max": "The most for each card."},
    ),
    policies.PolicyVgpuProfile: Descriptions(
        "A vGPU profile.",
        {"profile": "Its id (557) or its name (NVIDIA L40S-8Q).", "max": "The most for each card."},
    ),
    **LABEL_SELECTOR_DESCRIPTIONS,
}
