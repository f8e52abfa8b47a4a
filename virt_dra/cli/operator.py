"""``virt-dra operator``: watches a cluster's VMs, publishes their devices, and completes their launcher pods."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import uuid
from datetime import timedelta
from importlib.metadata import version
from typing import Final, Literal, get_args

import click

from virt_dra.api.integration.attribute_keys import DriverKeys
from virt_dra.api.kubevirt_versions import (
    GPUS_WITH_DRA,
    HOST_DEVICES,
    HOST_DEVICES_WITH_DRA,
    NETWORK_DEVICES_WITH_DRA,
    NEWEST,
    Gates,
)
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.options import (
    address_keys_option,
    kubevirt_gates_option,
    log_level_option,
    parse_namespace,
    port_option,
)
from virt_dra.controllers.devices.options import ResolutionOptions
from virt_dra.controllers.operator.instance_loop import LoopSettings
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone.pod import StandaloneOptions
from webhooks.server.log import json_logging

_NEEDS: Final = (
    "the operator needs kopf, the kubernetes package and prometheus-client; "
    "install them with: pip install 'virt-dra[operator]'"
)
Mode = Literal["beside-kubevirt", "standalone"]
_OWN_GATES: Final = dict.fromkeys((GPUS_WITH_DRA, HOST_DEVICES_WITH_DRA, HOST_DEVICES, NETWORK_DEVICES_WITH_DRA), True)
"""Gates of mode standalone, in which all devices are supported unless --kubevirt-gates says otherwise."""

EPILOG = """\b
Examples:
  virt-dra operator                                        the current kubeconfig's cluster, beside its KubeVirt
  virt-dra operator --mode standalone -n vms --no-election      one namespace, one process
  curl localhost:8080/metrics; curl localhost:8080/readyz; curl localhost:8081/healthz

\b
It logs one JSON object per line to standard error.

\b
Exit codes: 0 stopped by SIGTERM or SIGINT; 1 no connection to the cluster, lost Lease, or internal error; 2 bad usage.
"""


def _all_namespaces(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    return parse_namespace(ctx, param, value) if value else ""


@click.command(name="operator", epilog=EPILOG)
@click.option("--mode", type=click.Choice(get_args(Mode)), default="beside-kubevirt", show_default=True,
              help="Beside a KubeVirt that runs the VMs, or standalone, with launcher pods of our own.")  # fmt: skip
@cluster_options
@click.option("-n", "--namespace", callback=_all_namespaces, help="Only VMs of this namespace.  [default: all]")
@click.option("--own-namespace", envvar="POD_NAMESPACE", default="virt-dra", show_default=True,
    callback=parse_namespace,
              help="Namespace of the Lease; also $POD_NAMESPACE.")  # fmt: skip
@click.option("--lease", default="virt-dra-operator", show_default=True, help="Name of the Lease for leader election.")
@click.option("--lease-seconds", type=click.IntRange(3, 3600), default=15, show_default=True,
              help="Time after which a leader that hasn't renewed the Lease is replaced.")  # fmt: skip
@click.option("--no-election", is_flag=True, help="Lead without a Lease: no other operator may run.")
@click.option(
    "--identity",
    envvar="POD_NAME",
    help="Name of this process in Lease and Events.  [default: $POD_NAME, else host and id]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 256),
    default=16,
    show_default=True,
    help="VMs that are reconciled at the same time.",
)
@click.option(
    "--spread", is_flag=True, help="Device entries of one claim and request get its devices in order (K-5.8)."
)
@click.option("--grace", type=click.FloatRange(0), default=120.0, show_default=True,
              help="Seconds after its allocation from which an unpublished device is an error.")  # fmt: skip
@kubevirt_gates_option
@click.option("--launcher-image", metavar="IMAGE", envvar="VIRT_DRA_LAUNCHER_IMAGE",
              default=f"virt-dra-launcher:{version('virt-dra')}", show_default=True,
              help="Standalone: image of the launcher pods.")  # fmt: skip
@click.option("--launcher-argument", "launcher_arguments", metavar="ARGUMENT", multiple=True,
              help="Standalone: an argument of virt-dra-launcher; may be repeated.")  # fmt: skip
@address_keys_option
@click.option("--host", default="0.0.0.0", show_default=True, help="Address of the ports.")
@port_option("--plain-port", 8080, "For /metrics and /readyz.")
@click.option("--health-port", type=click.IntRange(1, 65535), default=8081, show_default=True, help="For /healthz.")
@log_level_option
def command(
    mode: Mode, cluster: ClusterChoice, namespace: str, own_namespace: str, lease: str, lease_seconds: int,
    no_election: bool, identity: str | None, workers: int, spread: bool, grace: float,
    gates: dict[str, bool], launcher_image: str, launcher_arguments: tuple[str, ...],
    address_keys: tuple[DriverKeys, ...], host: str, plain_port: int, health_port: int, log_level: int,
) -> None:  # fmt: skip
    """Watch the VirtualMachineInstances of a cluster.

    Beside KubeVirt: each VMI with claims gets a VirtualMachineInstanceDevices object that shows where its devices are
    (see virt-dra get vms --live), whether they are healthy, and what it waits for; its launcher pod gets what its
    integration path needs. Any number of replicas may run; one leads. The process keeps no state outside the API and
    may be killed at any time.
    """
    with required(_NEEDS, "kopf", "kubernetes", "aiohttp", "prometheus_client"):
        from virt_dra.cluster.kube.cluster import ConnectionProblem
        from virt_dra.cluster.kube.leader import LeaseTiming
        from virt_dra.operator.process import OperatorFailed, OperatorProcess, operate
    # Unique for every process: the host's name alone may be that of its predecessor.
    name = identity or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
    json_logging(sys.stderr, log_level)
    resolution = ResolutionOptions(spread=spread, keys=address_keys, grace=timedelta(seconds=grace))
    own = None
    if mode == "standalone":
        pods = StandaloneOptions(launcher_image, launcher_arguments)
        own = standalone.StandaloneSettings(Gates.for_version(NEWEST, {**_OWN_GATES, **gates}), pods, resolution)
    settings = LoopSettings(namespace=namespace, instance=name, workers=workers, resolution=resolution, standalone=own)
    # In kube-scheduler's proportions of 15, 10 and 2 s: the first minus the second is what a leader has for stopping.
    timing = LeaseTiming(lease_seconds, lease_seconds * 2 / 3, lease_seconds * 2 / 15)
    process = OperatorProcess(
        identity=name, namespace=own_namespace, lease=None if no_election else lease, timing=timing, host=host,
        plain_port=plain_port, health_port=health_port, kubeconfig=cluster.kubeconfig, context=cluster.context,
    )  # fmt: skip
    try:
        asyncio.run(operate(process, settings))
    except (ConnectionProblem, OperatorFailed) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        if error.errno is None:  # not the system's word about a port: a bug
            raise
        raise click.ClickException(
            f"cannot listen on {host}, ports {plain_port} and {health_port}: {error.strerror or error}"
        ) from None
