"""Refusals of the launcher: a reason (a constant below), the device or field it is about, and a message.

The messages are KubeVirt's own wherever KubeVirt has one (K-7), so that what a user reads here can be found there.
"""

from __future__ import annotations

MALFORMED_ADDRESS = "MalformedAddress"
"""An address that KubeVirt or libvirt can't read (K-7.4)."""
INCOMPLETE_CLAIM_REQUEST = "IncompleteClaimRequest"
"""A DRA device without claim or request name, and without an explicit status (K-7.10)."""
NO_ADDRESS = "NoAddress"
"""No source names an address for the device (K-7.6)."""
AMBIGUOUS_VARIABLE = "AmbiguousVariable"
"""Several environment variables could be meant, and the claim object's name is not known (K-7.5)."""
COUNT_MISMATCH = "CountMismatch"
"""Fewer or more elements than devices (K-7.3, K-7.23)."""
DUPLICATE_ALIAS = "DuplicateAlias"
"""Two entries would get one alias, which libvirt refuses (K-7.17)."""
DUPLICATE_ADDRESS = "DuplicateAddress"
"""One host device would be handed in twice, which libvirt refuses (K-5.13)."""
UNWRITABLE_TEXT = "UnwritableText"
"""A name holds characters that no XML document can carry."""
INVALID_DOMAIN = "InvalidDomain"
"""A field of the VMI from which no domain can be made."""
LIBVIRT_UNAVAILABLE = "LibvirtUnavailable"
"""libvirt's Python binding is not installed, or its daemon does not answer."""
LIBVIRT_REFUSED = "LibvirtRefused"
"""libvirt answered, and refused."""


class LauncherError(ValueError):
    """A conversion that can't be done. ``subject`` is ``gpus/NAME``, ``hostDevices/NAME``, ``interfaces/NAME`` or a field path."""

    def __init__(self, reason: str, subject: str, message: str) -> None:
        self.reason = reason
        self.subject = subject
        self.message = message
        super().__init__(message)


class AddressSyntaxError(ValueError):
    """Text that is no address. The message is KubeVirt's; who parses adds which device it was for."""
