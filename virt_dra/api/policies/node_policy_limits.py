"""Sizes and patterns of VirtDraNodePolicies, of which their CRD's schema is made, and by which they are validated."""

from __future__ import annotations

from typing import Final

from virt_dra.api.policies.node_policy_v1alpha1 import EACH, TOGETHER

SETS_MAX: Final = 64
SELECTORS_MAX: Final = 64
TYPES_MAX: Final = 32
INDEX_MAX: Final = 65_535
COUNT_MAX: Final = 1024
NUMA_NODE_MAX: Final = 1023
FORMS: Final = (TOGETHER, EACH)
SANITIZING: Final = ("none", "reset", "erase")

ID: Final = r"[0-9a-fA-F]{4}"
CLASS: Final = r"[0-9a-fA-F]{2}([0-9a-fA-F]{2}){0,2}"
PCI_ADDRESS: Final = r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
PARENT: Final = r"[A-Za-z0-9][A-Za-z0-9:._-]{0,62}"
DRIVER: Final = r"([A-Za-z0-9][A-Za-z0-9_.+-]{0,62})?"
MDEV_TYPE: Final = r"[A-Za-z0-9][A-Za-z0-9 ._+/-]{0,62}"
