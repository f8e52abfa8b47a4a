"""``--live`` of commands that read files otherwise: the objects of a cluster, read with the user's own rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.cli.shared.cluster_options import ClusterChoice, NoCluster, cluster_options, reads_cluster
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.option_table import shared
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE
from virt_dra.cli.shared.output import refuse

if TYPE_CHECKING:
    from virt_dra.live.reading import ReadScope
    from virt_dra.model.kinds import ReadKinds

R = TypeVar("R")


def live_unless(*inputs: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds ``--live`` and the options of the cluster; the command gets ``live: ClusterChoice | None``, None where files
    alone are read. ``inputs``: parameters that a command can be about in place of a cluster."""

    def adding(command: Callable[..., R]) -> Callable[..., R]:
        @shared("--live", "wanted", "Objects of files replace its.")
        @cluster_options
        @wraps(command)
        def with_live(*args: Any, wanted: bool, cluster: ClusterChoice, **kwargs: Any) -> R:
            live = reads_cluster(wanted, *(kwargs.get(name) for name in inputs))
            cluster.check(live=live)
            return command(*args, live=cluster if live else None, **kwargs)

        return with_live

    return adding


live_options = live_unless("paths", "filenames", "jsonl", "workload")
"""``--live`` and the options of the cluster, of a command whose files are in place of a cluster."""


def live_objects(
    cluster: ClusterChoice, kinds: ReadKinds, namespace: str, output: str
) -> tuple[list[TypedObject], ReadScope]:
    """All objects of the kinds in a cluster; where that isn't allowed, those of the namespace. What is left out is said
    on standard error.

    Ends the command if there is no connection, or nothing can be read.
    """
    from virt_dra.cluster.port import ApiError
    from virt_dra.live.reading import read_cluster

    async def read() -> tuple[list[TypedObject], ReadScope]:
        async with cluster.connected() as connected:
            return await read_cluster(connected, kinds, namespace or DEFAULT_NAMESPACE)

    try:
        objects, scope = asyncio.run(read())
    except (ApiError, NoCluster) as error:
        refuse([error.message if isinstance(error, NoCluster) else str(error)], output)
    for note in scope.notes:
        say(note, err=True)
    return objects, scope


def live_sourced(
    cluster: ClusterChoice, capability: str, namespace: str, output: str
) -> tuple[list[Sourced[TypedObject]], ReadScope]:
    """The objects that a capability reads, as :func:`live_objects`, each with a name for where it was read."""
    from virt_dra.model.kinds import READ  # imports every kind

    objects, scope = live_objects(cluster, READ[capability], namespace, output)
    return [Sourced(obj, DocumentSource(f"cluster: {obj.kind or obj.KIND} {obj.key}", 0)) for obj in objects], scope
