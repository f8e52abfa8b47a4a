"""``virt-dra operator``: watches a cluster's VMs, publishes their devices, and completes their launcher pods."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Literal, get_args

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
from virt_dra.cli.controller_process import ProcessChoice, process_options
from virt_dra.cli.shared.option_table import RepeatableOption, shared
from virt_dra.cli.shared.options import address_keys_option, kubevirt_gates_option, parse_any_namespace
from virt_dra.controllers.devices.options import ResolutionOptions
from virt_dra.controllers.operator.instance_loop import LoopSettings
from virt_dra.controllers.standalone import reconcile as standalone
from virt_dra.controllers.standalone.pod import StandaloneOptions

if TYPE_CHECKING:
    from virt_dra.operator.process import OperatorProcess

_NEEDS: Final = "the operator needs kopf, httptools, the kubernetes package and prometheus-client"
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


@click.command(name="operator", epilog=EPILOG)
@click.option("--mode", type=click.Choice(get_args(Mode)), default="beside-kubevirt", show_default=True,
              help="Beside a KubeVirt that runs the VMs, or standalone, with launcher pods of our own.")  # fmt: skip
@process_options("virt-dra-operator")
@shared("--namespace", detail="Only they are followed.  [default: all]", callback=parse_any_namespace)
@shared("--workers", type=click.IntRange(1, 256), default=16)
@click.option("--spread", is_flag=True,
              help="Device entries of one claim and request get its devices in order (K-5.8).")  # fmt: skip
@click.option("--grace", type=click.FloatRange(0), default=120.0, show_default=True,
              help="Seconds after its allocation from which an unpublished device is an error.")  # fmt: skip
@kubevirt_gates_option
@shared("--launcher-image", envvar="VIRT_DRA_LAUNCHER_IMAGE", default=f"virt-dra-launcher:{version('virt-dra')}")
@click.option("--launcher-argument", "launcher_arguments", metavar="ARGUMENT", cls=RepeatableOption,
              help="Standalone: an argument of virt-dra-launcher.")  # fmt: skip
@address_keys_option
def command(
    mode: Mode, process: ProcessChoice, namespace: str, workers: int, spread: bool, grace: float,
    gates: dict[str, bool], launcher_image: str, launcher_arguments: tuple[str, ...],
    address_keys: tuple[DriverKeys, ...],
) -> None:  # fmt: skip
    """Watch the VirtualMachineInstances of a cluster.

    Beside KubeVirt: each VMI with claims gets a VirtualMachineInstanceDevices object that shows where its devices are
    (see virt-dra get vms --live), whether they are healthy, and what it waits for; its launcher pod gets what its
    integration path needs. Any number of replicas may run; one leads. The process keeps no state outside the API and
    may be killed at any time.
    """
    resolution = ResolutionOptions(spread=spread, keys=address_keys, grace=timedelta(seconds=grace))
    own = None
    if mode == "standalone":
        pods = StandaloneOptions(launcher_image, launcher_arguments)
        own = standalone.StandaloneSettings(Gates.for_version(NEWEST, {**_OWN_GATES, **gates}), pods, resolution)
    settings = LoopSettings(
        namespace=namespace, instance=process.identity, workers=workers, resolution=resolution, standalone=own
    )

    async def run(operator: OperatorProcess) -> None:
        from virt_dra.operator.process import operate  # kopf takes half a second to import

        await operate(operator, settings)

    process.run(_NEEDS, run)
