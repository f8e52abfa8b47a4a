"""Who makes a request: what an API server knows of an authenticated user."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = "system:anonymous"
SERVICE_ACCOUNT = "system:serviceaccount:"
NODE_NAME = "authentication.kubernetes.io/node-name"
"""The key of ``extra`` by which a service account's token says on which node its pod runs."""


@dataclass(frozen=True)
class Requester:
    """A user, its groups, and what else the authenticator reports."""

    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def service_account(self) -> tuple[str, str] | None:
        """Namespace and name of the service account; None for any other user."""
        namespace, colon, name = self.name.removeprefix(SERVICE_ACCOUNT).partition(":")
        return (
            (namespace, name)
            if self.name.startswith(SERVICE_ACCOUNT) and colon and namespace and name and ":" not in name
            else None
        )

    def authenticated(self) -> Requester:
        """The user with the groups that an API server adds to an impersonated one: its own, for a service account."""
        groups = self.groups
        account = self.service_account
        if account is not None and not groups:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
        if self.name != ANONYMOUS and AUTHENTICATED not in groups and UNAUTHENTICATED not in groups:
            groups = (*groups, AUTHENTICATED)
        elif self.name == ANONYMOUS and UNAUTHENTICATED not in groups:
            groups = (*groups, UNAUTHENTICATED)
        return replace(self, groups=groups)


ADMIN = Requester("kubernetes-admin", (MASTERS, AUTHENTICATED))
"""A user who may do everything."""
