"""Rules for ``spec.resourceClaims``: names and sources of the entries (K-2.4 to K-2.9), whatever the gates."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.api.core_v1 import PodResourceClaim
from virt_dra.api.go_text import quoted
from virt_dra.api.names import dns1123_label, dns1123_subdomain
from webhooks.rules.reviewed_spec import ReviewedSpec
from webhooks.verdict import DUPLICATE, INVALID, REQUIRED, AdmissionCause


def entries(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Invalid entries (K-2.4 to K-2.9, in 1.9): the causes of one entry before those of the next."""
    seen: set[str] = set()
    for index, entry in enumerate(subject.spec.resource_claims):
        field = subject.path(f"resourceClaims[{index}]")
        yield from _name(entry.name, field, seen)
        yield from _source(entry, field)
        seen.add(entry.name)


def unique_names(subject: ReviewedSpec) -> Iterator[AdmissionCause]:
    """Entries of one name, the only rule for them in 1.8 (K-2.28, K-2.29)."""
    seen: set[str] = set()
    for index, entry in enumerate(subject.spec.resource_claims):
        if entry.name in seen:
            yield _duplicate(entry.name, subject.path(f"resourceClaims[{index}]"))
        seen.add(entry.name)


def _name(name: str, field: str, seen: set[str]) -> Iterator[AdmissionCause]:
    """A missing name (K-2.4), else a repeated one (K-2.5), else one that isn't a DNS label (K-2.6)."""
    if not name:
        yield AdmissionCause(REQUIRED, f"{field}.name is a required field", f"{field}.name")
    elif name in seen:
        yield _duplicate(name, field)
    elif details := dns1123_label(name):
        text = f"{field}.name does not conform to the kubernetes DNS_LABEL rules: {', '.join(details)}"
        yield AdmissionCause(INVALID, text, f"{field}.name")


def _duplicate(name: str, field: str) -> AdmissionCause:
    return AdmissionCause(DUPLICATE, f"duplicate resourceClaims name {quoted(name)}", f"{field}.name")


def _source(entry: PodResourceClaim, field: str) -> Iterator[AdmissionCause]:
    """Both sources (K-2.7), none (K-2.8), and their syntax (K-2.9)."""
    sources = (
        ("resourceClaimName", entry.resource_claim_name),
        ("resourceClaimTemplateName", entry.resource_claim_template_name),
    )
    given = [(key, name) for key, name in sources if name is not None]
    if len(given) > 1:
        yield AdmissionCause(
            INVALID, "at most one of resourceClaimName or resourceClaimTemplateName may be specified", field
        )
    elif not given:
        yield AdmissionCause(INVALID, "must specify one of: resourceClaimName, resourceClaimTemplateName", field)
    for key, name in given:
        for detail in dns1123_subdomain(name):
            yield AdmissionCause(INVALID, detail, f"{field}.{key}")
