"""Sizes and patterns of DeviceProfiles, of which their CRD's schema is made, and by which they are validated."""

from __future__ import annotations

from typing import Final

TOLERATIONS_MAX: Final = 16
CAPACITIES_MAX: Final = 32
CONFIGURATIONS_MAX: Final = 16
EXPRESSIONS_MAX: Final = 64
"""Of a label selector."""
DURATION: Final = r"([1-9][0-9]{0,2}d)?([1-9][0-9]{0,3}h)?([1-9][0-9]{0,4}m)?([1-9][0-9]{0,5}s)?"
"""Where it isn't empty."""
A_DURATION: Final = "a duration in days, hours, minutes and seconds, such as 24h or 1d12h"
"""What :data:`DURATION` matches, in words."""
NEVER: Final = "never"
