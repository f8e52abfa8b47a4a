"""What the CRD of KeepPolicies has beside the types: bounds, patterns, CEL rules, and what ``kubectl explain
keeppolicies`` says. It refuses what :mod:`virt_dra.api.keeping.policy_rules` refuses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from devtools.crds.structural import Additions, Descriptions
from virt_dra.api.keeping import keep_policy_v1alpha1 as policies
from virt_dra.api.keeping.policy_rules import CLASSES_MAX, DEVICES_MAX, DURATION_MAX, LIMITS_NOTHING
from virt_dra.api.names import SUBDOMAIN_MAX
from virt_dra.api.profiles.profile_limits import DURATION
from virt_dra.api.wire import Json, Wire

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DEVICES: Final[Json] = {"minimum": 0, "maximum": DEVICES_MAX}

ADDITIONS: Final[Mapping[type[Wire], Additions]] = {
    policies.KeepPolicy: Additions(itself={"required": ["spec"]}),
    policies.KeepPolicySpec: Additions(
        itself={
            "x-kubernetes-validations": [
                {
                    "rule": "has(self.stoppedFor) || has(self.devices) || "
                    "(has(self.classes) && size(self.classes) > 0)",
                    "message": LIMITS_NOTHING,
                }
            ]
        },
        fields={
            "stoppedFor": {"pattern": f"^({DURATION})$", "minLength": 1, "maxLength": DURATION_MAX},
            "devices": _DEVICES,
            "classes": {
                "maxItems": CLASSES_MAX,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["deviceClassName"],
            },
        },
    ),
    policies.ClassKeepLimit: Additions(
        itself={"required": ["deviceClassName", "devices"]},
        fields={
            "deviceClassName": {
                "pattern": rf"^({_LABEL}(\.{_LABEL})*)$",
                "minLength": 1,
                "maxLength": SUBDOMAIN_MAX,
            },
            "devices": _DEVICES,
        },
    ),
}

DESCRIPTIONS: Final[Mapping[type[Wire], Descriptions]] = {
    policies.KeepPolicy: Descriptions(
        "How many devices the stopped VMs of its namespace may keep (virt-dra.io/keep-devices), and for how long. All "
        "policies of a namespace hold. VMs that run aren't limited.",
        {"spec": "The limits."},
    ),
    policies.KeepPolicySpec: Descriptions(
        "The limits. What isn't given isn't limited.",
        {
            "stoppedFor": "The longest time for which a stopped VM keeps its devices: 24h, or 1d12h.",
            "devices": "How many devices stopped VMs keep at most. Who stopped first keeps; a VM keeps all or none.",
            "classes": "The same for single DeviceClasses.",
        },
    ),
    policies.ClassKeepLimit: Descriptions(
        "A limit for devices of one class.",
        {
            "deviceClassName": "The DeviceClass by which claims ask for the devices.",
            "devices": "How many of its devices stopped VMs keep at most.",
        },
    ),
}
