"""A real control plane to play with, until Ctrl-C: ``make cluster``."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import click

from devtools.cluster.control_plane import (
    ADVICE,
    ALL_DRA_GATES,
    API_SERVER,
    CONTROLLERS,
    DEFAULT_CONTROLLERS,
    ETCD,
    SCHEDULER,
    ControlPlane,
    ControlPlaneError,
    binary,
)
from devtools.containers.containerd import ContainerdError
from devtools.play.agents import CONTROLLERS as FOR_DEPLOYMENTS
from devtools.play.agents import Site, standing
from devtools.play.contained import contained
from devtools.play.network import PodNetwork
from devtools.play.starting import Starter
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.cluster.port import ApiError

PARTS = (SCHEDULER, CONTROLLERS)
FOR_PEOPLE = (
    *DEFAULT_CONTROLLERS,
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
)
"""With the controllers on which pods of a cluster count: a ServiceAccount in each namespace."""


def parsed_gates(text: str) -> Mapping[str, bool]:
    """``all``, or ``Name=true,Name=false``. Raises :class:`click.BadParameter`."""
    if text == "all":
        return ALL_DRA_GATES
    gates: dict[str, bool] = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if not name or value not in ("true", "false"):
            raise click.BadParameter(
                f"{part!r} is not Name=true or Name=false; for all gates of DRA say: all", param_hint="--feature-gates"
            )
        gates[name] = value == "true"
    return gates


def parsed_kubevirt(text: str) -> KubeVirtVersion | None:
    """A version, or None for ``none``. Raises :class:`click.BadParameter`."""
    if text == "none":
        return None
    try:
        return KubeVirtVersion.parse(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{error}; where there shall be no KubeVirt say: none", param_hint="--kubevirt-version"
        ) from None


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="Where to write the admin's kubeconfig.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the API server; 0: a free one.")
@click.option("--nodes", type=click.IntRange(0, 5000), default=1, help="How many nodes to make.")
@click.option(
    "--feature-gates", "gates", default="", help="Feature gates: all (those of DRA), or Name=true,Name=false."
)
@click.option("--without", default="", help="Leave out: kube-scheduler, kube-controller-manager, or both with a comma.")
@click.option(
    "--kubevirt-version",
    "kubevirt",
    default="",
    help="Nodes with GPUs and kubelets that run virt-dra's pods, and a small KubeVirt of this version, or none.",
)
@click.option("--gpus", type=click.IntRange(0, 128), default=2, help="Of each node, with --kubevirt-version.")
@click.option(
    "--driver",
    default="gpu.example.com",
    help="Name of the driver that publishes them; gpu.intel.com writes metadata files.",
)
@click.option(
    "--images",
    is_flag=True,
    help="With --kubevirt-version: run virt-dra's pods in containerd, of the images of make image; as root.",
)
def main(
    kubeconfig: Path, port: int, nodes: int, gates: str, without: str, kubevirt: str, gpus: int, driver: str,
    images: bool
) -> None:  # fmt: skip
    """Runs etcd, kube-apiserver, kube-scheduler and kube-controller-manager 1.37.1 on loopback until Ctrl-C."""
    left_out = tuple(filter(None, without.split(",")))
    if unknown := sorted(set(left_out) - set(PARTS)):
        raise click.BadParameter(
            f"{', '.join(unknown)}: only {' and '.join(PARTS)} can be left out", param_hint="--without"
        )
    missing = [name for name in (ETCD, API_SERVER, *PARTS) if name not in left_out and binary(name) is None]
    if missing:
        raise click.ClickException(f"{', '.join(missing)} missing: {ADVICE}")
    if kubevirt and not nodes:
        raise click.BadParameter(
            "with --kubevirt-version at least one node is needed, which runs the pods", param_hint="--nodes"
        )
    if images and not kubevirt:
        raise click.BadParameter("only with --kubevirt-version there are kubelets that run pods", param_hint="--images")
    names = tuple(f"node-{number}" for number in range(nodes))
    site = Site(parsed_kubevirt(kubevirt), names, gpus, driver) if kubevirt else None
    for number in (signal.SIGINT, signal.SIGTERM):  # the former too: what a script starts in the background ignores it
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="virt-dra-play-", ignore_cleanup_errors=True) as scratch:
        network = PodNetwork(Path(scratch))
        arguments = network.server_arguments() if site else ()
        plane = ControlPlane(
            gates=parsed_gates(gates), service_accounts=CONTROLLERS not in left_out, arguments=arguments, port=port
        )
        try:
            with (
                contained() if images else nullcontext((None, None)) as (_, starter),
                network if site else nullcontext(),
                plane as running,
            ):
                _start(running, left_out, site)
                asyncio.run(_stand(running, kubeconfig, names, site, network, Path(scratch), starter))
        except KeyboardInterrupt:
            click.echo("\nended")
        except (ControlPlaneError, ContainerdError, ApiError) as error:
            raise click.ClickException(str(error)) from None
        except OSError as error:
            raise click.ClickException(f"the control plane can't be started: {error}") from None


def _start(running: ControlPlane, left_out: tuple[str, ...], site: Site | None) -> None:
    if SCHEDULER not in left_out:
        running.start_scheduler()
    if CONTROLLERS not in left_out:
        running.start_controllers(*FOR_PEOPLE, *(FOR_DEPLOYMENTS if site else ()))


async def _stand(
    running: ControlPlane, kubeconfig: Path, nodes: tuple[str, ...], site: Site | None, network: PodNetwork,
    scratch: Path, starter: Starter | None,
) -> None:  # fmt: skip
    """Until it is cancelled, which Ctrl-C does."""
    if site is None:
        for name in nodes:
            running.create_node(name)
        _tell(running, kubeconfig, f"{len(nodes)} node{'' if len(nodes) == 1 else 's'} without kubelet")
        await asyncio.Event().wait()
        return
    folder = kubeconfig.parent / "cluster"
    folder.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=folder / "agents.log", filemode="w", level=logging.WARNING)
    async with standing(running, site, network, folder, scratch, starter) as agents, asyncio.TaskGroup() as group:
        group.create_task(agents.run())
        _tell(running, kubeconfig, str(site), f"domains of running VMs, and logs: {folder}")


def _tell(running: ControlPlane, kubeconfig: Path, site: str, *more: str) -> None:
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(running.kubeconfig.read_text(encoding="utf-8"))
    click.echo(f"Kubernetes 1.37.1 at {running.server}, {site}; logs: {running.logs}")
    for line in more:
        click.echo(line)
    (kubeconfig.parent / "api-server-ca.crt").write_bytes(running.webhook_client_ca.read_bytes())
    click.echo(f"export KUBECONFIG={kubeconfig.resolve()}")
    click.echo("Ctrl-C ends it and forgets all objects.")
    sys.stdout.flush()
