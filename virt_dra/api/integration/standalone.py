"""The interface of operator and launcher without KubeVirt: annotations and files of a launcher pod
(docs/decisions/0012-real-cluster.md).

The launcher has no token. Its input is annotations of its pod, which a downwardAPI volume shows as files. Its output is
a file that the readiness probe checks, and the termination message.
"""

from __future__ import annotations

from typing import Final

from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.integration.device_metadata import BASE, request_directory
from virt_dra.api.integration.paths import DEVICE_STATUS_ANNOTATION, DOMAIN, SHIM_FILE

VMI_ANNOTATION: Final = f"{DOMAIN}/vmi"
"""On launcher pods: the VMI as JSON, without status. Written when the pod is made; the spec doesn't change later."""
POD_DEVICE_STATUS_ANNOTATION: Final = DEVICE_STATUS_ANNOTATION
"""On launcher pods: the deviceStatus as JSON, from when every device is resolved."""

INFO_VOLUME: Final = "virt-dra-info"
INFO_DIRECTORY: Final = "/etc/virt-dra"
VMI_FILE: Final = "vmi.json"
DEVICE_STATUS_FILE: Final = "device-status.json"
"""Empty until the annotation is there."""
METADATA_FOLDER: Final = "dra-device-attributes"
"""In :data:`INFO_DIRECTORY`: metadata (K-7.7) of networks' devices, for which deviceStatus has no place (K-5.12)."""

RUN_VOLUME: Final = "virt-dra-run"
RUN_DIRECTORY: Final = "/run/virt-dra"
READY_FILE: Final = "ready"
"""Made once the domain runs, removed when it stops. The readiness probe looks for it."""
STATUS_FILE: Final = "status.json"
"""The launcher's phase, since when and why, and the addresses of its devices on the host and in the guest."""
DOMAIN_FILE: Final = "domain.xml"
"""The domain as it was defined, for debugging."""

TERMINATION_MESSAGE_PATH: Final = "/dev/termination-log"
MAX_TERMINATION_MESSAGE: Final = 4096
"""Bytes; Kubernetes cuts what is longer."""

COMMAND: Final = ("virt-dra-launcher",)
"""The command of the container ``compute``; its options' defaults are the paths above."""


def metadata_file(entry: PodResourceClaim, request: str) -> str:
    """The place in :data:`INFO_DIRECTORY` of a request's metadata. Names must be valid: nothing is escaped here."""
    directory = request_directory(entry.name, entry.resource_claim_name, request)
    return f"{METADATA_FOLDER}/{directory.removeprefix(f'{BASE}/')}/{SHIM_FILE}"
