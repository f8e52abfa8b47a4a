"""Which cluster a subcommand asks: ``--kubeconfig`` and ``--context``, and what to say where there is no way to one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from virt_dra.cli.shared.output import BAD_INPUT

if TYPE_CHECKING:
    from virt_dra.cluster.kube.cluster import KubeCluster

R = TypeVar("R")

NEEDS = "a live cluster is asked through the kubernetes package; install it with: pip install 'virt-dra[cluster]'"


class NoCluster(click.ClickException):
    """There is no way to a cluster, or the library for it is missing; the text says what to do. Ends a command as bad usage does."""

    exit_code = BAD_INPUT


@dataclass(frozen=True)
class ClusterChoice:
    """What the options say; None where one isn't given."""

    kubeconfig: str | None = None
    context: str | None = None

    @property
    def given(self) -> bool:
        """Whether any of the options was given."""
        return self.kubeconfig is not None or self.context is not None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[KubeCluster]:
        """The cluster, which has answered once. Raises :class:`NoCluster`."""
        try:
            from virt_dra.cluster.kube.cluster import ConnectionProblem, connect
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("kubernetes", "aiohttp"):
                raise
            raise NoCluster(NEEDS) from None
        try:
            async with connect(self.kubeconfig, self.context) as cluster:
                yield cluster
        except ConnectionProblem as error:
            raise NoCluster(str(error)) from None


def cluster_options(command: Callable[..., R]) -> Callable[..., R]:
    """Adds ``--kubeconfig`` and ``--context``; the command gets them together, as ``cluster: ClusterChoice``."""

    @click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="How to reach the cluster.  [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]",
    )
    @click.option("--context", metavar="NAME", help="Of the kubeconfig.  [default: its current one]")
    @wraps(command)
    def with_cluster(*args: Any, kubeconfig: str | None, context: str | None, **kwargs: Any) -> R:
        return command(*args, cluster=ClusterChoice(kubeconfig, context), **kwargs)

    return with_cluster
