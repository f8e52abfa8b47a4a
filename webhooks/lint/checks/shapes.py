"""Requests that are legal and that no VM can use: several devices, alternatives, admin access (K-2.27, K-5.7, K-5.8, K-7.8, K-7.12)."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_versions import V1_8_0
from virt_dra.api.resource_v1 import ADMIN_ACCESS_LABEL
from webhooks.lint.finding import Found
from webhooks.lint.subject import Linted, Wish


def several_devices(linted: Linted) -> Iterator[Found]:
    """Of a request with alternatives only where each asks for several; else first-available says it."""
    for use in linted.uses:
        if not all(map(_several, use.wishes)):
            continue
        for wish in use.wishes:
            assert use.claim is not None
            asked, member = ("all devices that match", "allocationMode") if wish.all_devices else (f"{wish.count} devices", "count")
            if linted.version < V1_8_0:
                then = f"KubeVirt {linted.version} gives the VM the first of them and none of the others"
            else:
                then = f"KubeVirt {linted.version} takes exactly one device per request, so the VM will not start"
            yield Found(
                use.request_field,
                f"request {quoted(wish.name)} asks for {asked} ({use.claim} {wish.path}.{member}), and one device entry takes one; {then}. "
                "Write one request, with count 1, for each device",
            )


def _several(wish: Wish) -> bool:
    return wish.all_devices or wish.count > 1


def first_available(linted: Linted) -> Iterator[Found]:
    for use in linted.uses:
        request = use.request
        if request is None or not request.first_available:
            continue
        if linted.shimmed(use) and not any(map(_several, use.wishes)):
            continue
        names = ", ".join(quoted(f"{request.name}/{each.name}") for each in request.first_available[:3])
        several = [quoted(wish.name) for wish in use.wishes if _several(wish)]
        also = f". Besides, {', '.join(several)} would be several devices, where one device entry takes one" if several else ""
        yield Found(
            use.request_field,
            f"request {quoted(use.request_name)} has alternatives (firstAvailable), and KubeVirt {linted.version} does not find the chosen "
            f"one: it is called {names}{' or the like' if len(request.first_available) > 1 else ''} then. "
            f"Ask for one kind of device with exactly, or let the metadata shim of virt-dra flatten the result{also}",
        )


def admin_access(linted: Linted) -> Iterator[Found]:
    """A device that others use is never a VM's (K-5.7); and the API server takes such a claim in few namespaces only (A-22.10)."""
    reported: set[Wish] = set()
    for use in linted.uses:
        for wish in use.wishes:
            assert use.claim is not None
            if wish.admin_access:
                reported.add(wish)
                yield Found(
                    use.request_field,
                    f"request {quoted(wish.name)} asks for admin access ({use.claim} {wish.path}.adminAccess), which shares devices that "
                    "others use; such a device is never handed to a VM. Remove adminAccess",
                )
    if linted.settings.at_admission or linted.world.permits_admin_access(linted.namespace):
        return
    for claim in linted.claims:
        for wish in claim.wishes if not linted.world.is_stored(claim.kind, linted.namespace, claim.name) else ():
            if wish.admin_access and wish not in reported:
                yield Found(
                    claim.field,
                    f"{claim} {wish.path}.adminAccess: the API server takes a claim with admin access only in a namespace with the label "
                    f"{ADMIN_ACCESS_LABEL}=true, and no VM has a use for it. Remove adminAccess",
                )
