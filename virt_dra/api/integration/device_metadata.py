"""KEP-5304's metadata file, by which a DRA driver describes devices to a pod's containers: its names and its path
(K-7.7, K-7.8, K-7.11). What is in it: :mod:`virt_dra.api.integration.metadata_content`.

A file is a stream of JSON objects, the same content once for each version that its writer knows, newest first.
"""

from __future__ import annotations

from typing import Final

METADATA_VERSION: Final = "metadata.resource.k8s.io/v1alpha1"
"""The version that KubeVirt reads."""
METADATA_VERSIONS: Final = ("metadata.resource.k8s.io/v1beta1", METADATA_VERSION)
"""The versions that our driver writes, newest first (D-35)."""
METADATA_KIND: Final = "DeviceMetadata"
FILE_SUFFIX: Final = "-metadata.json"
"""The suffix by which readers find the file; the rest of its name is usually the driver's."""

BASE: Final = "/var/run/kubernetes.io/dra-device-attributes"
BASE_1_8_0: Final = "/var/run/dra-device-attributes"
"""Where KubeVirt 1.8.0 to 1.8.2 look (K-7.11)."""
DIRECT: Final = "resourceclaims"
TEMPLATES: Final = "resourceclaimtemplates"

PCI_BUS_ID: Final = "resource.kubernetes.io/pciBusID"
MDEV_UUID: Final = "mdevUUID"
"""The two attributes that KubeVirt reads; the latter without a domain (K-7.9)."""


def request_directory(entry: str, claim: str | None, request: str) -> str:
    """The absolute directory of one request's file (K-7.7). ``entry``: pod-local claim name; ``claim``: the object's,
    of a direct claim.

    ``request`` is the base request. None of them may hold a path separator: nothing is escaped here.
    """
    return f"{BASE}/{DIRECT}/{claim}/{request}" if claim else f"{BASE}/{TEMPLATES}/{entry}/{request}"


def request_directory_1_8_0(entry: str, claim: str | None, request: str) -> str:
    """The folder as KubeVirt 1.8.0 to 1.8.2 has it, which knows one level only (K-7.11)."""
    return f"{BASE_1_8_0}/{claim or entry}/{request}"
