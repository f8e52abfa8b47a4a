"""``--live`` of commands that read files otherwise: the objects of a cluster, read with the user's own rights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from virt_dra.api.meta import TypedObject
from virt_dra.api.reading.documents import DocumentSource, Sourced
from virt_dra.cli.shared.cluster_options import ClusterChoice, NoCluster, cluster_options, reads_cluster
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.option_table import gathered, shared
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE
from virt_dra.cli.shared.output import refusing

if TYPE_CHECKING:
    from virt_dra.live.reading import ReadScope
    from virt_dra.model.kinds import ReadKinds

R = TypeVar("R")


def live_unless(*inputs: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds ``--live`` and the options of the cluster; the command gets ``live: ClusterChoice | None``, None where files
    alone are read. ``inputs``: parameters that a command can be about in place of a cluster."""

    def chosen(wanted: bool, cluster: ClusterChoice) -> ClusterChoice | None:
        given = click.get_current_context().params
        live = reads_cluster(wanted, *(given.get(name) for name in inputs))
        cluster.check(live=live)
        return cluster if live else None

    return gathered("live", chosen, shared("--live", "wanted", "Objects of files replace its."), cluster_options)


live_options = live_unless("paths", "more", "filenames", "jsonl", "workload")
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

    with refusing(output, ApiError, NoCluster):
        objects, scope = cluster.ask(lambda connected: read_cluster(connected, kinds, namespace or DEFAULT_NAMESPACE))
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
