"""Valid requests that no VM can use: several devices, alternatives, admin access (K-2.27, K-5.7, K-5.8, K-7.8,
K-7.12)."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.go_text import quoted
from virt_dra.api.kubevirt_versions import V1_8_0
from virt_dra.api.resource_v1 import ADMIN_ACCESS_LABEL
from webhooks.lint.finding import LintIssue
from webhooks.lint.linted import Linted, RequestOption
from webhooks.verdict import FieldIssue


def several_devices(linted: Linted) -> Iterator[FieldIssue]:
    """Requests for several devices. Alternatives count if each is for several; otherwise first-available reports
    them."""
    for use in linted.uses:
        if not all(map(_several, use.options)):
            continue
        for option in use.options:
            assert use.claim is not None
            asked, member = f"{option.count} devices", "count"
            if option.all_devices:
                asked, member = "all devices that match", "allocationMode"
            then = "takes exactly one device per request, so the VM will not start"
            if linted.version < V1_8_0:
                then = "gives the VM the first of them and none of the others"
            yield LintIssue(
                use.request_field,
                f"request {quoted(option.name)} asks for {asked} ({use.claim} {option.path}.{member}), and a device "
                f"entry takes one; KubeVirt {linted.version} {then}. Write one request, with count 1, for each device",
                at=use.claim.place(f"{option.path}.{member}"),
            )


def _several(option: RequestOption) -> bool:
    return option.all_devices or option.count > 1


def first_available(linted: Linted) -> Iterator[FieldIssue]:
    """Requests with alternatives: KubeVirt doesn't find the device of the chosen one."""
    for use in linted.uses:
        request = use.request
        if request is None or not request.first_available:
            continue
        if linted.shimmed(use) and not any(map(_several, use.options)):
            continue
        names = ", ".join(quoted(f"{request.name}/{option.name}") for option in request.first_available[:3])
        names += ", …" if len(request.first_available) > 3 else ""
        several = [quoted(option.name) for option in use.options if _several(option)]
        ask = "asks" if len(several) == 1 else "ask"
        besides = f". Besides, {', '.join(several)} {ask} for several devices, and a device entry takes one"
        also = besides if several else ""
        yield LintIssue(
            use.request_field,
            f"request {quoted(use.request_name)} has alternatives (firstAvailable), and KubeVirt {linted.version} "
            f"doesn't find the device, because the allocation result is named after the chosen alternative ({names}). "
            "Request one kind of device with exactly, or use virt-dra's metadata shim, which supports "
            f"alternatives{also}",
            at=use.claim.place(use.options[0].path.rpartition("[")[0]) if use.claim and use.options else None,
        )


def admin_access(linted: Linted) -> Iterator[FieldIssue]:
    """Requests with admin access: a VM never gets a device that others use (K-5.7), and few namespaces permit them
    (A-22.10)."""
    reported: set[RequestOption] = set()
    for use in linted.uses:
        for option in use.options:
            assert use.claim is not None
            if option.admin_access:
                reported.add(option)
                yield LintIssue(
                    use.request_field,
                    f"request {quoted(option.name)} asks for admin access ({use.claim} {option.path}.adminAccess), "
                    "which shares devices that others use; such a device is never passed to a VM. Remove adminAccess",
                    at=use.claim.place(f"{option.path}.adminAccess"),
                )
    if linted.settings.at_admission or linted.inputs.permits_admin_access(linted.namespace):
        return
    for claim in linted.claims:
        for option in claim.options if not linted.inputs.is_stored(claim.kind, linted.namespace, claim.name) else ():
            if option.admin_access and option not in reported:
                yield claim.issue(
                    f"{option.path}.adminAccess",
                    f"{claim} {option.path}.adminAccess: the API server accepts a claim with admin access only in a "
                    f"namespace with the label {ADMIN_ACCESS_LABEL}=true, and a VM can't use it. Remove adminAccess",
                )
