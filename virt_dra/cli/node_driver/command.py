"""``virt-dra node-driver``: publishes a node's devices and prepares them for VMs."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Final

import click

from virt_dra.api.integration.known_drivers import PASSTHROUGH_DRIVER
from virt_dra.api.names import dns1123_subdomain, dns1123_subdomain_caseless
from virt_dra.cli.node_driver.policy_files import labels_of, policy_file
from virt_dra.cli.shared.cluster_options import ClusterChoice, cluster_options
from virt_dra.cli.shared.extras import required
from virt_dra.cli.shared.option_table import RepeatableOption, shared
from virt_dra.cli.shared.options import log_level_option, output_option

_NEEDS: Final = "the node driver needs grpcio, protobuf, httptools and the kubernetes package"
KUBELET_ROOT: Final = "/var/lib/kubelet"
SYSFS: Final = "/sys"
_DRIVER_MAX: Final = 63

EPILOG = """\b
Examples:
  virt-dra node-driver --node worker-1    policies: the cluster's VirtDraNodePolicies
  virt-dra node-driver --node worker-1 --node-policy examples/requests/node-policy.yaml    a policy from a file instead
  virt-dra node-driver --node worker-1 --taint gone=NoSchedule --taint link-down=None
  virt-dra node-driver --plan --node-policy examples/requests/node-policy.yaml -o table    which devices, and why?
  virt-dra node-driver --plan --sysfs copy/sys --proc copy/proc --node-policy examples/requests/node-policy.yaml

\b
It runs as root on each node (virt-dra install --driver), and logs one JSON object per line to standard error. With
--pod-uid two of them may run on a node during an update. On the plain port: GET /metrics, /healthz and /readyz.

\b
With --plan it changes nothing and needs no root. A copy of a machine, to try a policy in CI:
  tar -C / --ignore-failed-read -cf machine.tar sys/bus sys/class sys/devices sys/kernel/iommu_groups \\
    proc/self/mountinfo proc/swaps proc/net/route proc/net/ipv6_route proc/consoles
Exit codes of --plan: 0 something would be published, 1 nothing would be, 2 a policy or tree can't be used.

\b
Exit codes: 0 stopped by SIGTERM or SIGINT, its devices tainted; 1 a port, a socket or the configuration of the
cluster can't be used; 2 bad usage.
"""


def _taints(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """``REASON=EFFECT``, by reason."""
    from node_driver.conditions import ConditionReason, TaintEffect

    effects: dict[str, str] = {}
    for value in values:
        reason, _, effect = value.partition("=")
        for given, choices in ((reason, ConditionReason), (effect, TaintEffect)):
            names = [choice.value for choice in choices]
            if given not in names:
                raise click.BadParameter(f"{value!r}: {given!r} is none of {', '.join(names)}")
        effects[reason] = effect
    return effects


def _node_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    if value and (faults := dns1123_subdomain(value)):
        raise click.BadParameter(f"{value!r}: {faults[0]}")
    return value


def _driver_name(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """As Kubernetes takes it: it is a folder's name, too."""
    if faults := dns1123_subdomain_caseless(value):
        raise click.BadParameter(f"{value!r}: {faults[0]}")
    if len(value) > _DRIVER_MAX:
        raise click.BadParameter(f"{value!r}: must be no more than {_DRIVER_MAX} characters")
    return value


@click.command(name="node-driver", epilog=EPILOG)
@click.option("--plan", is_flag=True, help="Print what would be published, and why not the rest; change nothing.")
@click.option("--sysfs", metavar="ROOT", default=SYSFS, show_default=True,
              help="With --plan: folder that holds what /sys holds, such as a copy.")  # fmt: skip
@click.option("--proc", metavar="ROOT", help="With --plan: folder that holds what /proc holds. A copy of /sys without "
              "it has every disk and interface needed by the node.  [default: /proc with /sys, else none]")  # fmt: skip
@click.option("--modules", metavar="FOLDER", help="With --plan: folder with modules.alias, which names variant "
              "drivers.  [default: /lib/modules/RELEASE with /sys, else none]")  # fmt: skip
@shared("--label", "labels", "With --plan: for policies with a nodeSelector.", callback=labels_of)
@shared("--verbose", detail="With --plan: also devices that no policy names.")
@output_option("yaml", "json", "table")
@shared("--node", "node_name", "This one, by the name of its Node object; also $NODE_NAME.", envvar="NODE_NAME",
        default="", callback=_node_name)  # fmt: skip
@shared("--node-policy", "policy", "Instead of the cluster's.", type=policy_file)
@click.option("--driver-name", default=PASSTHROUGH_DRIVER, show_default=True, metavar="NAME", callback=_driver_name,
              help="Name of the driver, which DeviceClasses select.")  # fmt: skip
@click.option("--pod-uid", envvar="POD_UID", default="", metavar="UID",
              help="UID of the driver's pod: two instances may run during an update; also $POD_UID.")  # fmt: skip
@click.option("--kubelet-root", default=KUBELET_ROOT, show_default=True, metavar="FOLDER",
              help="The kubelet's folder.")  # fmt: skip
@click.option("--plugins-dir", metavar="FOLDER", help="Where drivers have folders.  [default: plugins below the "
"kubelet's]")  # fmt: skip
@click.option("--registry-dir", metavar="FOLDER", help="Where the kubelet looks for drivers.  [default: "
"plugins_registry below the kubelet's]")  # fmt: skip
@click.option("--cdi-dir", default="/var/run/cdi", show_default=True, metavar="FOLDER",
              help="Where container runtimes look for CDI files.")  # fmt: skip
@shared("--host-root", detail="For tests.  [default: /]", default="")
@click.option("--taint", "effects", metavar="REASON=EFFECT", cls=RepeatableOption, callback=_taints,
              help="Another effect (NoSchedule, NoExecute, None) of a condition's taint.")  # fmt: skip
@shared("--plain-host", default="127.0.0.1")
@shared("--plain-port", default=8769)
@cluster_options
@log_level_option
def command(
    plan: bool, sysfs: str, proc: str | None, modules: str | None, labels: dict[str, str], verbose: bool, output: str,
    node_name: str, policy: Path | None, driver_name: str, pod_uid: str, kubelet_root: str, plugins_dir: str | None,
    registry_dir: str | None, cdi_dir: str, host_root: str, effects: dict[str, str], plain_host: str, plain_port: int,
    cluster: ClusterChoice, log_level: int,
) -> None:  # fmt: skip
    """Publish the devices of this node that policies name, and prepare them for VMs: PCI devices, SR-IOV functions,
    mediated devices and vGPUs.

    Nothing is published that no policy names, nor what holds the node's root disk, its console or its route. State is
    in a checkpoint beside the driver's socket: the process may be killed at any time.
    """
    if plan:
        if policy is None:
            raise click.UsageError("--plan needs --node-policy FILE: nothing is published that no policy names")
        from node_driver.hardware.reading import HardwareRoots
        from virt_dra.cli.node_driver.plan import PlanRequest, print_plan

        own = Path(sysfs).resolve() == Path(SYSFS)
        proc = proc if proc is not None else "/proc" if own else os.devnull
        modules = modules if modules is not None else f"/lib/modules/{os.uname().release}" if own else ""
        roots = HardwareRoots(sysfs, proc, modules)
        print_plan(PlanRequest(roots, policy, labels, driver_name, node_name or "node", verbose, output))
    if not node_name:
        raise click.UsageError("Missing option '--node' (or $NODE_NAME); --plan needs none")
    with required(_NEEDS, "driver", "grpc", "google", "kubernetes", "httptools"):
        from node_driver.conditions import DEFAULT_EFFECTS, ConditionReason, TaintEffect
        from node_driver.wire.sockets import SocketsInUse
        from virt_dra.cli.node_driver.running import DriverPlaces, NodeDriver, run_driver
        from virt_dra.cluster.kube.errors import ConnectionProblem
    from webhooks.server.log import json_logging

    json_logging(sys.stderr, log_level)
    changed = {ConditionReason(reason): TaintEffect(effect) for reason, effect in effects.items()}
    plugin_folder = f"{plugins_dir or f'{kubelet_root}/plugins'}/{driver_name}"
    registry = registry_dir or f"{kubelet_root}/plugins_registry"
    places = DriverPlaces(plugin_folder, registry, cdi_dir, host_root.rstrip("/"))
    driver = NodeDriver(
        driver_name, node_name, pod_uid, places, {**DEFAULT_EFFECTS, **changed}, policy, plain_host, plain_port,
        cluster.kubeconfig, cluster.context,
    )  # fmt: skip
    try:
        asyncio.run(run_driver(driver))
    except (ConnectionProblem, SocketsInUse, ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
