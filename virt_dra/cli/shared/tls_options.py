"""The options for a server's certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from virt_dra.cli.shared.option_table import gathered, shared
from virt_dra.cli.shared.options import parse_service

if TYPE_CHECKING:
    from webhooks.tls.reloading import CertificateSource

R = TypeVar("R")


@dataclass(frozen=True)
class TlsOptions:
    """The options for the certificate; None for one that isn't given."""

    tls_dir: Path | None
    self_signed: Path | None
    dns_names: tuple[str, ...]
    service: tuple[str, str] | None

    def files(self) -> CertificateSource:
        """A folder with the certificate. Raises UsageError. Needs the extra ``webhook``."""
        from webhooks.tls.authority import service_names
        from webhooks.tls.folder import AuthorityFolder
        from webhooks.tls.reloading import CertificateFolder

        names = (*self.dns_names, *(service_names(*self.service) if self.service else ()))
        if self.tls_dir is not None and self.self_signed is None:
            if names:
                raise click.UsageError("--dns-name and --service go with an authority of our own, not with --tls-dir")
            return CertificateFolder(self.tls_dir)
        if self.self_signed is None or self.tls_dir is not None:
            raise click.UsageError("give either --tls-dir or --self-signed")
        if not names:
            raise click.UsageError("--self-signed needs --service or --dns-name")
        return AuthorityFolder(self.self_signed, names, lambda: datetime.now(UTC))


def tls_options(trust: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """The options; the command gets them together, as ``tls: TlsOptions``. ``trust``: what an authority of our own is
    for."""
    return gathered(
        "tls", TlsOptions, shared("--tls-dir"), shared("--self-signed", detail=trust),
        shared("--dns-name", "dns_names", "With --self-signed."),
        shared("--service", detail="With --self-signed.", callback=parse_service),
    )  # fmt: skip
