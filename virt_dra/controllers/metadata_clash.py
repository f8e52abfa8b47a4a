"""A pod that was given a volume for metadata, and a device whose driver mounts a file of its own there (K-11.1, 0012). Pure.

The path is chosen when the pod is made, by the drivers of published devices. Where none matched then, a driver that writes metadata may
serve the claim all the same, later: its file can't be mounted into the read-only volume, and the pod can't be changed any more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from virt_dra.api.integration_paths import METADATA_SHIM, Pair
from virt_dra.api.integration_record import Integration
from virt_dra.api.known_drivers import ALWAYS_WRITE
from virt_dra.controllers.device_resolution import Resolution, Resolved, Warned

METADATA_CLASH: Final = "MetadataClash"
"""The container can't be made; only another pod helps."""


def with_clashes(resolution: Resolution, record: Integration | None, *, running: bool) -> Resolution:
    """With a warning for each device whose driver is known to mount its file where the pod has a volume of ours.

    ``record``: what the pod webhook did to the pod. A VMI that runs has proved that nothing clashes.
    """
    if record is None or running:
        return resolution
    # Of the older layout's directory no driver knows (K-7.11).
    shimmed = {recorded.pair for recorded in record.pairs if recorded.path == METADATA_SHIM and recorded.layout == "KEP-5304"}
    clashes = tuple(
        Warned(
            outcome.subject,
            METADATA_CLASH,
            f"driver {outcome.result.driver} mounts a metadata file of its own where the pod has virt-dra's volume, so its container can't "
            "be made: no device of this driver was known when the pod was made, or path metadata-shim was asked for. Restart the VM",
        )
        for outcome in resolution.outcomes
        if isinstance(outcome, Resolved)
        and outcome.result.driver in ALWAYS_WRITE
        and Pair(outcome.subject.claim_name, outcome.subject.request_name) in shimmed
    )
    return replace(resolution, warnings=(*resolution.warnings, *clashes)) if clashes else resolution
