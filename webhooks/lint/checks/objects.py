"""Whether what a VM names is there: templates, claims, requests in them, device classes (K-2.27, K-12.3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from virt_dra.api.go_text import quoted
from webhooks.lint.finding import Found
from webhooks.lint.subject import Linted, NamedClaim
from webhooks.lint.world import CLASSES, Key


def refused_object(linted: Linted) -> Iterator[Found]:
    """A template, claim or class that the input has and that no API server would take: it won't be there."""
    for claim in linted.claims:
        why = _refused(linted, claim)
        if why is not None:
            yield Found(claim.field, f"{claim} {why}")
        for name in dict.fromkeys(wish.class_name for wish in claim.wishes if linted.class_of(wish) is None and claim.allocated is None):
            why = linted.world.refused.get((CLASSES, "", name))
            if why is not None:
                yield Found(claim.field, f"DeviceClass {quoted(name)}, which {claim} names, {why}")


def _refused(linted: Linted, claim: NamedClaim) -> str | None:
    return linted.world.refused.get((claim.kind, linted.namespace, claim.name)) if claim.spec is None else None


def template_missing(linted: Linted) -> Iterator[Found]:
    yield from _missing(linted, linted.world.templates, [claim for claim in linted.claims if not claim.direct])


def claim_missing(linted: Linted) -> Iterator[Found]:
    yield from _missing(linted, linted.world.claims, [claim for claim in linted.claims if claim.direct])


def _missing(linted: Linted, there: Iterable[Key], named: Iterable[NamedClaim]) -> Iterator[Found]:
    for claim in named:
        if claim.spec is not None or claim.kind not in linted.world.known or _refused(linted, claim) is not None:
            continue
        # What other namespaces have is not for everybody who may create a VM.
        elsewhere = [] if linted.settings.at_admission else sorted(namespace for namespace, name in there if name == claim.name)
        hint = f"; there is one in {_namespaces(elsewhere)}, but a VM can name only what is in its own namespace" if elsewhere else ""
        yield Found(
            claim.field,
            f"there is no {claim.kind} {quoted(claim.name)} in namespace {linted.namespace}{hint}. "
            f"The VM's pod stays pending until it exists: create it, or correct the name",
        )


def _namespaces(names: list[str]) -> str:
    return ("namespace " if len(names) == 1 else "namespaces ") + ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def request_missing(linted: Linted) -> Iterator[Found]:
    """K-1.4: the requests of a claim, not their alternatives."""
    for use in linted.uses:
        claim = use.claim
        if claim is None or claim.spec is None or use.request is not None:
            continue
        present = [request.name for request in claim.spec.devices.requests]
        base = use.request_name.partition("/")[0]
        if "/" in use.request_name and base in present:
            advice = f"it is an alternative of the request {quoted(base)}; name the request"
        else:
            listed = ", ".join(map(quoted, present[:5])) + (", …" if len(present) > 5 else "")
            advice = f"it has {listed}; name one of them" if present else "it has none; add one"
        yield Found(use.request_field, f"{claim} has no request {quoted(use.request_name)}: {advice}")


def class_missing(linted: Linted) -> Iterator[Found]:
    """Of every request, used or not: a claim is allocated as a whole."""
    if CLASSES not in linted.world.known:
        return
    for claim in linted.claims:
        for wish in claim.wishes:
            refused = (CLASSES, "", wish.class_name) in linted.world.refused
            if linted.class_of(wish) is None and claim.allocated is None and not refused:
                known = sorted(linted.world.classes)
                listed = f"there is {', '.join(known[:5])}{', …' if len(known) > 5 else ''}" if known else "there are no classes"
                yield Found(
                    claim.field,
                    f"{claim} {wish.path}.deviceClassName: there is no DeviceClass {quoted(wish.class_name)}; {listed}. "
                    "Install the driver that brings the class, or name another one",
                )
