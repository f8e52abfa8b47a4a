"""What the scheduler knows of claims beyond its informer: its own writes that haven't come back yet."""

from __future__ import annotations

from collections.abc import Iterator

from virt_dra.classic.objects import ClassicClaim
from virt_dra.cluster.watching.informer import Informer


class AssumedClaims:
    """Claims by the informer, or as the scheduler wrote them if that is newer. Call :meth:`seen` for each change of the
    informer."""

    def __init__(self, claims: Informer[ClassicClaim]) -> None:
        self._stored = claims.store
        self._written: dict[tuple[str, str], ClassicClaim] = {}

    def get(self, namespace: str, name: str) -> ClassicClaim | None:
        return self._written.get((namespace, name)) or self._stored.get(name, namespace)

    def wrote(self, claim: ClassicClaim) -> None:
        """A write succeeded and returned this."""
        stored = self._stored.get(claim.name, claim.namespace)
        if stored is None or _is_newer(claim, stored):
            self._written[claim.namespace, claim.name] = claim

    def seen(self, claim: ClassicClaim, *, gone: bool) -> None:
        """The informer has this claim now, or lost it."""
        key = (claim.namespace, claim.name)
        written = self._written.get(key)
        if written is not None and (gone or not _is_newer(written, claim)):
            del self._written[key]

    def newer(self) -> Iterator[ClassicClaim]:
        """What the informer doesn't have yet."""
        yield from self._written.values()


def _is_newer(left: ClassicClaim, right: ClassicClaim) -> bool:
    """By resourceVersion; one that is no number can't be compared, and then the informer is believed."""
    mine, theirs = left.metadata.resource_version, right.metadata.resource_version
    same = left.metadata.uid == right.metadata.uid
    return same and mine.isdigit() and theirs.isdigit() and int(mine) > int(theirs)
