"""``--kubeconfig`` and ``--context``, and the connection to the cluster that they name."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.option_table import gathered, shared
from virt_dra.cli.shared.output import BAD_INPUT

if TYPE_CHECKING:
    from virt_dra.cluster.kube.cluster import KubeCluster
    from virt_dra.cluster.kube.limits import ClientLimits

T = TypeVar("T")

KUBECTL_PROGRAM = "kubectl virt-dra"
"""The program's name as a plugin of kubectl."""
NEEDS = "reading a live cluster needs the kubernetes package and httptools"


class NoCluster(click.ClickException):
    """There is no connection to a cluster, or the library for it is missing; the text says what to do. Exits as bad
    usage does."""

    exit_code = BAD_INPUT


@dataclass(frozen=True)
class ClusterChoice:
    """The values of the options; None for one that isn't given. ``by_default``: they are the user's own defaults."""

    kubeconfig: str | None = None
    context: str | None = None
    by_default: bool = False

    @property
    def given(self) -> bool:
        """True if any of the options is given."""
        return not self.by_default and (self.kubeconfig is not None or self.context is not None)

    def check(self, *, live: bool) -> None:
        """Raises UsageError if any of the options is given without ``--live``."""
        if self.given and not live:
            raise click.UsageError("--kubeconfig and --context go with --live")

    @asynccontextmanager
    async def connected(self, limits: ClientLimits | None = None) -> AsyncIterator[KubeCluster]:
        """A connection to the cluster, which has answered once. Raises :class:`NoCluster`.

        ``limits``: by default those of a command that reads once, and keeps what it reads."""
        with required(NEEDS, "cluster", "kubernetes", "httptools", error=NoCluster):
            from virt_dra.cluster.kube.cluster import ConnectionProblem, connect
            from virt_dra.cluster.kube.limits import reading_limits
        try:
            limits = limits or reading_limits(os.environ)
        except ValueError as error:
            raise NoCluster(str(error)) from None
        try:
            async with connect(self.kubeconfig, self.context, limits=limits) as cluster:
                yield cluster
        except ConnectionProblem as error:
            raise NoCluster(str(error)) from None

    def ask(self, work: Callable[[KubeCluster], Coroutine[Any, Any, T]]) -> T:
        """What the work on a connection returns. Raises :class:`NoCluster`, and what the work does."""
        import asyncio  # here, for a quick start of commands that read files

        async def asked() -> T:
            async with self.connected() as cluster:
                return await work(cluster)

        return asyncio.run(asked())


def is_typed(parameter: str) -> bool:
    """True if a parameter of the running command is given on its command line."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


def reads_cluster(live: bool, *inputs: object) -> bool:
    """True with ``--live``, and for the plugin of kubectl where no input is given: kubectl's commands are about a
    cluster."""
    return live or (not any(inputs) and click.get_current_context().find_root().info_name == KUBECTL_PROGRAM)


def _choice(kubeconfig: str | None, context: str | None) -> ClusterChoice:
    return ClusterChoice(kubeconfig, context, by_default=not (is_typed("kubeconfig") or is_typed("context")))


cluster_options = gathered("cluster", _choice, shared("--kubeconfig"), shared("--context"))
"""``--kubeconfig`` and ``--context``; the command gets them together, as ``cluster: ClusterChoice``."""
