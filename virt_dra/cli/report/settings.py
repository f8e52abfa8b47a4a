"""What may be chosen of a report. Light to import: the serving process reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE

MOST_EXPLAINED: Final = 50


@dataclass(frozen=True)
class ReportSettings:
    """``namespace``: of objects that name none. ``most``: how many waiting VMs are explained."""

    namespace: str = DEFAULT_NAMESPACE
    address_keys: tuple[DriverKeys, ...] = ()
    most: int = MOST_EXPLAINED
