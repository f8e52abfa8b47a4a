"""The options of commands that run a controller as a process, and how such a command ends."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.option_table import gathered, shared
from virt_dra.cli.shared.options import log_level_option, parse_namespace
from webhooks.server.log import json_logging

if TYPE_CHECKING:
    from virt_dra.operator.process import OperatorProcess

R = TypeVar("R")


@dataclass(frozen=True)
class ProcessChoice:
    """The values of the options. ``lease``: None for no election."""

    cluster: ClusterChoice
    own_namespace: str
    lease: str | None
    lease_seconds: int
    identity: str
    host: str
    plain_port: int
    health_port: int
    log_level: int

    def run(self, needs: str, run: Callable[[OperatorProcess], Coroutine[Any, Any, None]]) -> None:
        """Run until the process is stopped. ``needs``: what to say where a library is missing."""
        with required(needs, "operator", "kopf", "kubernetes", "aiohttp", "httptools", "prometheus_client"):
            from virt_dra.cluster.kube.cluster import ConnectionProblem
            from virt_dra.cluster.kube.leader import LeaseTiming
            from virt_dra.operator.process import OperatorFailed, OperatorProcess
        json_logging(sys.stderr, self.log_level)
        # In kube-scheduler's proportions of 15, 10 and 2 s: a leader has the first minus the second for stopping.
        timing = LeaseTiming(self.lease_seconds, self.lease_seconds * 2 / 3, self.lease_seconds * 2 / 15)
        process = OperatorProcess(
            identity=self.identity, namespace=self.own_namespace, lease=self.lease, timing=timing, host=self.host,
            plain_port=self.plain_port, health_port=self.health_port,
            kubeconfig=self.cluster.kubeconfig, context=self.cluster.context,
        )  # fmt: skip
        try:
            asyncio.run(run(process))
        except (ConnectionProblem, OperatorFailed) as error:
            raise click.ClickException(str(error)) from None
        except OSError as error:
            if error.errno is None:  # not the system's word about a port: a bug
                raise
            ports = f"{self.plain_port} and {self.health_port}"
            raise click.ClickException(
                f"cannot listen on {self.host}, ports {ports}: {error.strerror or error}"
            ) from None


def _process(
    cluster: ClusterChoice,
    own_namespace: str,
    lease: str,
    lease_seconds: int,
    no_election: bool,
    identity: str | None,
    host: str,
    plain_port: int,
    health_port: int,
    log_level: int,
) -> ProcessChoice:
    # Unique for every process: the host's name alone may be that of its predecessor.
    name = identity or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    return ProcessChoice(
        cluster,
        own_namespace,
        None if no_election else lease,
        lease_seconds,
        name,
        host,
        plain_port,
        health_port,
        log_level,
    )


def process_options(lease: str) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Adds the options; the command gets them together, as ``process: ProcessChoice``. ``lease``: the default name."""
    return gathered(
        "process", _process, cluster_options,
        shared("--own-namespace", detail="That of the Lease; also $POD_NAMESPACE.", envvar="POD_NAMESPACE",
               default="virt-dra", callback=parse_namespace),
        shared("--lease", default=lease), shared("--lease-seconds", default=15), shared("--no-election"),
        shared("--identity", envvar="POD_NAME"), shared("--host", default="0.0.0.0"),
        shared("--plain-port", default=8080), shared("--health-port", default=8081), log_level_option,
    )  # fmt: skip
