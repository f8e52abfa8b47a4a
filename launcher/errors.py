"""Errors of the launcher: a reason (a constant below), the device or field at fault, and a message.

Where KubeVirt has a message for the error (K-7), the message is KubeVirt's.
"""

from __future__ import annotations

MALFORMED_ADDRESS = "MalformedAddress"
"""An address that KubeVirt or libvirt can't parse (K-7.4)."""
INCOMPLETE_CLAIM_REQUEST = "IncompleteClaimRequest"
"""A DRA device without claim or request name, and without an explicit status (K-7.10)."""
NO_ADDRESS = "NoAddress"
"""No source has an address for the device (K-7.6)."""
AMBIGUOUS_VARIABLE = "AmbiguousVariable"
"""Several environment variables could be meant, and the claim object's name is not known (K-7.5)."""
COUNT_MISMATCH = "CountMismatch"
"""Fewer or more addresses than devices (K-7.3, K-7.23)."""
DUPLICATE_ALIAS = "DuplicateAlias"
"""Two entries would get the same alias, which libvirt refuses (K-7.17)."""
DUPLICATE_ADDRESS = "DuplicateAddress"
"""The domain would have one host device twice, which libvirt refuses (K-5.13)."""
UNWRITABLE_TEXT = "UnwritableText"
"""A name contains characters that XML doesn't allow."""
INVALID_DOMAIN = "InvalidDomain"
"""A field of the VMI from which no domain can be made."""
UNPLACEABLE_DEVICE = "UnplaceableDevice"
"""A device can't be placed on the guest NUMA cell of its node, which the VMI demands (K-8.6)."""
NOT_MIGRATABLE = "NotMigratable"
"""A domain whose devices can't be exchanged for those of a migration's target (K-10.4)."""
UNREADABLE_DOMAIN = "UnreadableDomain"
"""What KubeVirt passed to the hook as a domain isn't one, or is too large."""
UNREADABLE_VMI = "UnreadableVmi"
"""What KubeVirt passed to the hook as a VMI isn't one, or is too large."""
UNKNOWN_PLACEMENT = "UnknownPlacement"
"""The annotation for placement has another value than those that exist."""
NOT_ENOUGH_CPUS = "NotEnoughCpus"
"""The pod's CPUs don't suffice for the vCPUs that are pinned (K-8.11)."""
INVALID_OPTIONS = "InvalidOptions"
"""The annotation with options of host devices is malformed, or an option isn't for that kind of device."""
UNSUPPORTED_BY_LIBVIRT = "UnsupportedByLibvirt"
"""The domain uses what the given release of libvirt hasn't yet."""
MALFORMED_XML = "MalformedXml"
"""A document that isn't well-formed, is too large, or has a value that its element can't have."""
LIBVIRT_UNAVAILABLE = "LibvirtUnavailable"
"""libvirt's Python binding isn't installed, or its daemon doesn't answer."""
LIBVIRT_REFUSED = "LibvirtRefused"
"""libvirt refused the operation."""


class LauncherError(ValueError):
    """A VMI that can't be converted. ``subject`` is ``gpus/NAME``, ``hostDevices/NAME``, ``interfaces/NAME``, a field
    path, or a path in an XML document (``/domain/devices/hostdev[2]/boot/@order``)."""

    def __init__(self, reason: str, subject: str, message: str) -> None:
        self.reason = reason
        self.subject = subject
        self.message = message
        super().__init__(message)


def invalid_domain(field: str, reason: str) -> LauncherError:
    """The error of a field from which no domain can be made."""
    return LauncherError(INVALID_DOMAIN, field, f"{field}: {reason}" if field else reason)


class AddressSyntaxError(ValueError):
    """A text that isn't an address. The message is KubeVirt's; the caller adds the device."""
