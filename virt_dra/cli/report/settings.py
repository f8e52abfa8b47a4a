"""What may be chosen of a report. Light to import: the serving process reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.api.integration.attribute_keys import DriverKeys

MOST_EXPLAINED: Final = 50


@dataclass(frozen=True)
class ReportSettings:
    """``most``: how many waiting VMs are explained."""

    address_keys: tuple[DriverKeys, ...] = ()
    most: int = MOST_EXPLAINED
