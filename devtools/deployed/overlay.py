"""One of virt-dra's overlays on a control plane: installed by ``virt-dra install``, its components as processes with
its ServiceAccounts' rights.

There is no kubelet for Deployments, so the processes get the arguments that the installed Deployments have. There is no
Service either: webhook configurations are left as installed but for where the webhook is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, cast

from click.testing import CliRunner

from devtools.cluster import processes
from devtools.cluster.control_plane import ControlPlane, RequestError
from devtools.cluster.ports import free_port
from devtools.cluster.processes import Component
from virt_dra.cli.main import cli
from virt_dra.installation.plan import STANDALONE, Overlay

Json = dict[str, Any]

NAMESPACE: Final = "virt-dra"
_WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
_DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
_JSON_PATCH: Final = "application/json-patch+json"


class Installed:
    """Both components run and are ready. :meth:`start_webhook` brings one that was killed back, at the same place."""

    def __init__(self, plane: ControlPlane, overlay: Overlay, stack: ExitStack) -> None:
        self._plane, self.overlay, self._stack = plane, overlay, stack
        self._deployments: dict[str, Json] = {}
        self._port = free_port()
        self._accounts = {name: _account(plane, f"virt-dra-{name}") for name in ("operator", "webhook", "certificates")}
        redirect(plane, self._port)
        own = self.arguments("certificates", "webhook-certificates")[1:]
        stack.enter_context(processes.certificates(plane, self._accounts["certificates"], *own))
        self.webhook = self._webhook()
        self.operator = self._operator()
        for component in (self.webhook, self.operator):
            component.ready()

    def start_webhook(self) -> None:
        self.webhook = self._webhook().ready()

    def _webhook(self) -> Component:
        options = self.arguments("webhook")[2:]
        started = processes.webhook(self._plane, self._accounts["webhook"], *options, port=self._port)
        return self._stack.enter_context(started)

    def _operator(self) -> Component:
        options = self.arguments("operator")[1:]
        return self._stack.enter_context(processes.operator(self._plane, self._accounts["operator"], *options))

    def arguments(self, name: str, command: str = "") -> tuple[str, ...]:
        """What the installed Deployment gives its container: the command, as a default of the same name, and its
        arguments."""
        if name not in self._deployments:  # remembered: a component may have to be started while nothing can be read
            self._deployments[name] = self._plane.request("GET", f"{_DEPLOYMENTS}/virt-dra-{name}")
        deployment = self._deployments[name]
        arguments = tuple(deployment["spec"]["template"]["spec"]["containers"][0]["args"])
        assert arguments[0] == (command or name)
        return arguments


def _account(plane: ControlPlane, name: str) -> Path:
    """A kubeconfig of an installed ServiceAccount, which isn't made by asking for it."""
    plane.request("GET", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{name}")
    return plane.kubeconfig_of_service_account(NAMESPACE, name)


def images(overlay: Overlay) -> tuple[str, ...]:
    """Options of ``virt-dra install`` that name the images as the manifests do."""
    tag = version("virt-dra")
    return (
        "--image",
        f"virt-dra:{tag}",
        *(("--launcher-image", f"virt-dra-launcher:{tag}") if overlay == STANDALONE else ()),
    )


@contextmanager
def installed(plane: ControlPlane, overlay: Overlay, *options: str) -> Iterator[Installed]:
    """The overlay while the body runs; nothing of it is left afterwards. ``options``: of ``virt-dra install``."""
    own = ("--operator-argument=--launcher-argument=--uri=test:///default",) if overlay == STANDALONE else ()
    run(plane, "install", "--overlay", overlay, "--no-wait", *images(overlay), *own, *options)
    try:
        with ExitStack() as stack:
            yield Installed(plane, overlay, stack)
    finally:
        run(plane, "uninstall", "--yes", *(("--delete-vms",) if overlay == STANDALONE else ()), "--timeout", "60")


def run(plane: ControlPlane, *arguments: str) -> str:
    """``virt-dra …`` as the cluster's administrator; what it printed. Fails where it fails."""
    result = CliRunner().invoke(cli, [*arguments, "--kubeconfig", str(plane.kubeconfig)])
    assert result.exit_code == 0, f"virt-dra {' '.join(arguments)}: {result.output}"
    return result.stdout


def configurations(plane: ControlPlane) -> tuple[tuple[str, Json], ...]:
    """The webhook configurations that are there: path and object. An overlay may have only one of them."""
    present = []
    for kind in ("validating", "mutating"):
        path = f"{_WEBHOOKS}/{kind}webhookconfigurations/virt-dra"
        try:
            present.append((path, plane.request("GET", path)))
        except RequestError as error:
            if error.status != 404:
                raise
    return tuple(present)


def redirect(plane: ControlPlane, port: int) -> None:
    """Webhook configurations ask a port of loopback in place of the Service; everything else stays as installed."""
    for path, configuration in configurations(plane):
        patch = [
            {
                "op": "replace",
                "path": f"/webhooks/{index}/clientConfig",
                "value": {"url": f"https://localhost:{port}{webhook['clientConfig']['service']['path']}"},
            }
            for index, webhook in enumerate(configuration["webhooks"])
        ]
        plane.request("PATCH", path, cast("Json", patch), _JSON_PATCH)
