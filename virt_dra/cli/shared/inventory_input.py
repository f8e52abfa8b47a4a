"""The options of commands about the inventory, and the objects that they are about: of files, or of a live cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import click

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.reading.collector import collector_paused
from virt_dra.api.reading.documents import Document
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options, is_typed, reads_cluster
from virt_dra.cli.shared.console import say
from virt_dra.cli.shared.file_input import accepted_objects, sourced_of_documents, sourced_of_files
from virt_dra.cli.shared.live_input import live_objects
from virt_dra.cli.shared.option_table import gathered, shared
from virt_dra.cli.shared.options import DEFAULT_NAMESPACE, address_keys_option, file_inputs, parse_namespace
from virt_dra.cli.shared.output import refuse
from virt_dra.cluster.duplicates import applied
from virt_dra.cluster.files import read_written
from virt_dra.live.reading import ReadScope
from virt_dra.model.cluster import ClusterModel
from virt_dra.model.feeds.admitted import as_admitted
from virt_dra.model.feeds.files import model_of_files
from virt_dra.model.kinds import ReadKinds

R = TypeVar("R")


@dataclass(frozen=True)
class InventoryInput:
    """The values of the options. ``namespace``: None if it isn't given."""

    paths: tuple[str, ...]
    live: bool
    cluster: ClusterChoice
    namespace: str | None
    everywhere: bool
    address_keys: tuple[DriverKeys, ...]

    @property
    def scope(self) -> str:
        """The namespace of which rows are shown, "" for all."""
        return "" if self.everywhere else self.namespace or (DEFAULT_NAMESPACE if self.live else "")

    @property
    def title(self) -> str:
        """What is read, for people."""
        return "cluster" if self.live else ", ".join(self.paths)

    def check(self) -> None:
        """Raises UsageError for options that contradict each other."""
        if self.live == bool(self.paths):
            raise click.UsageError("say what to read: files with -f, or a cluster with --live")
        self.cluster.check(live=self.live)
        if self.everywhere and self.namespace is not None:
            raise click.UsageError("-A is all namespaces, -n one of them; give one of both")

    def documents(self, output: str) -> tuple[Document, ...]:
        """The objects of the files as they are written, without those of a cluster. Ends the command for files that
        can't be read."""
        if self.live:
            return ()
        written = read_written(self.paths)
        if written.problems:
            refuse([str(problem) for problem in written.problems], output)
        return written.documents

    def read(
        self, kinds: ReadKinds, output: str, documents: Sequence[Document] | None = None, *, judged: bool = False
    ) -> tuple[ClusterModel, ReadScope]:
        """The objects of the kinds. Ends the command if they can't be read; what is left out is said on standard error.

        ``documents``: what was read of the files already. ``judged``: without those that an API server would refuse,
        for verdicts on VMs; else as written.
        """
        if not self.live:
            return self._of_files(kinds, output, documents, judged), ReadScope(dict.fromkeys(kinds.all, ""))
        objects, scope = live_objects(self.cluster, kinds, self.namespace or DEFAULT_NAMESPACE, output)
        return as_admitted(ClusterModel(objects, unread=scope.unread, partial=scope.partial)), scope

    def _of_files(
        self, kinds: ReadKinds, output: str, documents: Sequence[Document] | None, judged: bool
    ) -> ClusterModel:
        namespace = self.namespace or DEFAULT_NAMESPACE
        with collector_paused():
            read = (
                sourced_of_files(self.paths, output) if documents is None else sourced_of_documents(documents, output)
            )
            once = applied((obj for obj in read if isinstance(obj.object, kinds.all)), namespace)
        for replaced in once.replaced:
            say(str(replaced), err=True)
        as_written = tuple(sourced.object for sourced in once.objects)
        return model_of_files(accepted_objects(once.objects, namespace) if judged else as_written, namespace)


def _parse_namespace(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return value if value is None else parse_namespace(ctx, param, value)


def _source(
    paths: tuple[str, ...],
    live: bool,
    namespace: str | None,
    everywhere: bool,
    cluster: ClusterChoice,
    address_keys: tuple[DriverKeys, ...],
) -> InventoryInput:
    if everywhere and not is_typed("namespace"):
        namespace = None
    source = InventoryInput(paths, reads_cluster(live, paths), cluster, namespace, everywhere, address_keys)
    source.check()
    return source


def inventory_options(*, arguments: bool) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """``-f``, ``--live``, ``-n``, ``-A`` and those of the cluster; the command gets them together, as ``source:
    InventoryInput``. ``arguments``: the command's are files, too."""
    detail = "Manifests or a dump; - is standard input."
    return gathered(
        "source", _source,
        file_inputs(detail) if arguments else shared("--filename", "paths", detail),
        shared("--live"),
        shared("--namespace", detail="[default: of files all, of a cluster default]", callback=_parse_namespace),
        shared("--all-namespaces", "everywhere"),
        cluster_options,
        address_keys_option,
    )  # fmt: skip
