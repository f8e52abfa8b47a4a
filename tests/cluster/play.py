"""A real control plane to play with, until Ctrl-C: ``make cluster``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import click

from tests.cluster.control_plane import (
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
            raise click.BadParameter(f"{part!r} is not Name=true or Name=false; for all gates of DRA say: all", param_hint="--gates")
        gates[name] = value == "true"
    return gates


@click.command()
@click.option("--kubeconfig", type=click.Path(path_type=Path, dir_okay=False), required=True, help="Where to write the admin's kubeconfig.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of the API server; 0: a free one.")
@click.option("--nodes", type=click.IntRange(0, 5000), default=1, help="How many nodes (without kubelets) to make.")
@click.option("--gates", default="", help="Feature gates: all (those of DRA), or Name=true,Name=false.")
@click.option("--without", default="", help="Leave out: kube-scheduler, kube-controller-manager, or both with a comma.")
def main(kubeconfig: Path, port: int, nodes: int, gates: str, without: str) -> None:
    """Runs etcd, kube-apiserver, kube-scheduler and kube-controller-manager 1.37.1 on loopback until Ctrl-C."""
    left_out = tuple(filter(None, without.split(",")))
    if unknown := sorted(set(left_out) - set(PARTS)):
        raise click.BadParameter(f"{', '.join(unknown)}: only {' and '.join(PARTS)} can be left out", param_hint="--without")
    missing = [name for name in (ETCD, API_SERVER, *PARTS) if name not in left_out and binary(name) is None]
    if missing:
        raise click.ClickException(f"{', '.join(missing)} missing: {ADVICE}")
    try:
        with ControlPlane(gates=parsed_gates(gates), service_accounts=CONTROLLERS not in left_out, port=port) as running:
            _run(running, kubeconfig, nodes, left_out)
    except ControlPlaneError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"the control plane can't be started: {error}") from None


def _run(running: ControlPlane, kubeconfig: Path, nodes: int, left_out: tuple[str, ...]) -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if SCHEDULER not in left_out:
        running.start_scheduler()
    if CONTROLLERS not in left_out:
        running.start_controllers(*FOR_PEOPLE)
    for number in range(nodes):
        running.create_node(f"node-{number}")
    kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(kubeconfig, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(running.kubeconfig.read_text(encoding="utf-8"))
    click.echo(f"Kubernetes 1.37.1 at {running.server}, {nodes} node{'' if nodes == 1 else 's'} without kubelet; logs: {running.logs}")
    click.echo(f"export KUBECONFIG={kubeconfig.resolve()}")
    click.echo("Ctrl-C ends it and forgets all objects.")
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        click.echo("\nended")


if __name__ == "__main__":
    main()
