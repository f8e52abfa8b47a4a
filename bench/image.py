"""The images: what they weigh, and how long a container takes to start, against the same command as a process of this
environment."""

from __future__ import annotations

import http.client
import itertools
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import yaml
from rich.console import Console
from rich.table import Table

from devtools.cluster import processes
from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.mounted import MountedSecret
from devtools.cluster.ports import free_port
from devtools.cluster.supervisor import Supervisor
from devtools.containers.caching import ADVICE, archives
from devtools.containers.containerd import BindMount, Containerd, ContainerdError
from devtools.containers.oci import ImageArchive
from devtools.containers.restrictions import restrictions_of
from devtools.deployed.operator import kinds
from devtools.deployed.overlay import images, run
from devtools.play.contained import contained
from virt_dra.installation.plan import BESIDE_KUBEVIRT

ROUNDS: Final = 5
GOALS: Final = {"virt-dra": 100, "virt-dra-launcher": 150}
"""Megabytes that a node pulls."""
SLOWER: Final = 1.5
"""A container may take so many times what the process takes until it is ready."""
_MANIFESTS: Final = Path(__file__).parents[1] / "manifests"
_COMMAND: Final = ("virt-dra",)
_WAIT_SECONDS: Final = 60.0
Command = Callable[[Sequence[str]], list[str]]


def main() -> None:
    console = Console()
    built = archives()
    if not built:
        console.print(f"image: nothing is measured: {ADVICE}", highlight=False)
        return
    sizes = Table("image", "compressed MB", "goal MB", "unpacked MB", title="Size of the images")
    for name, path in built.items():
        size = ImageArchive(path).sizes()
        sizes.add_row(name, f"{size.compressed / 1e6:.0f}", str(GOALS[name]), f"{size.uncompressed / 1e6:.0f}")
    console.print(sizes)
    try:
        with contained({"virt-dra": built["virt-dra"]}) as (containerd, _), _components() as components:
            console.print(_starts(containerd, components))
    except ContainerdError as error:
        console.print(f"image: starts aren't measured: {error}", highlight=False)


@contextmanager
def _components() -> Iterator[dict[str, tuple[tuple[str, ...], Path]]]:
    """Arguments of our servers, beside a real control plane, and the folder that they read."""
    with tempfile.TemporaryDirectory(prefix="virt-dra-bench-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        folder.chmod(0o755)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        plane = stack.enter_context(ControlPlane())
        stack.enter_context(kinds(plane))
        run(plane, "install", "--no-wait", *images(BESIDE_KUBEVIRT))
        stack.enter_context(processes.certificates(plane))
        stack.enter_context(MountedSecret(plane, "virt-dra", "virt-dra-webhook-tls", folder / "tls"))
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_bytes(plane.kubeconfig.read_bytes())
        kubeconfig.chmod(0o644)  # a container reads it as another user
        cluster = ("--kubeconfig", str(kubeconfig), "--host", "127.0.0.1")
        tls = ("--tls-dir", str(folder / "tls"), "--port", str(free_port()))
        yield {
            "operator": (("operator", *cluster, "--no-election", "--health-port", str(free_port())), folder),
            "webhook": (("webhook", "--live", *cluster, *tls, "--announce", "0"), folder),
            "extender": (("extender", *cluster, "--port", str(free_port())), folder),
        }


def _starts(containerd: Containerd, components: dict[str, tuple[tuple[str, ...], Path]]) -> Table:
    here = [sys.executable, "-c", processes.PROGRAM]
    deployment = yaml.safe_load((_MANIFESTS / "webhooks" / "deployment.yaml").read_text(encoding="utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    restrictions = restrictions_of(pod, pod["containers"][0], containerd.image("virt-dra").user)
    numbers = itertools.count()
    title = f"Start in containerd as the manifests say, median of {ROUNDS} rounds"
    table = Table("command", "process (peer) s", "container s", "× process", f"goal × (≤ {SLOWER})", title=title)

    def contained_in(folder: Path | None) -> Command:
        def command(arguments: Sequence[str]) -> list[str]:
            mounts = (
                [BindMount(folder / "tmp", "/tmp"), BindMount(folder, str(folder), read_only=True)] if folder else []
            )
            return containerd.command(
                f"bench-{next(numbers)}", "virt-dra", (*_COMMAND, *arguments), restrictions, mounts
            )

        return command

    def process(arguments: Sequence[str]) -> list[str]:
        return [*here, *arguments]

    helped = [
        statistics.median(_ended(start(("--help",))) for _ in range(ROUNDS)) for start in (process, contained_in(None))
    ]
    rows = {"virt-dra --help": helped}
    for name, (arguments, folder) in components.items():
        rows[f"virt-dra {name}, until /readyz"] = [
            statistics.median(_ready(start, arguments) for _ in range(ROUNDS))
            for start in (process, contained_in(folder))
        ]
    for name, (alone, inside) in rows.items():
        ratio = inside / alone
        table.add_row(name, f"{alone:.2f}", f"{inside:.2f}", f"{ratio:.2f}", _met(name, ratio))
    return table


def _met(name: str, ratio: float) -> str:
    """Of servers only: what making a container takes is as much as a short command."""
    return "" if "--help" in name else "yes" if ratio <= SLOWER else "no"


def _ended(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def _ready(command: Command, arguments: Sequence[str]) -> float:
    """Seconds from the start to the first answer 200 of /readyz."""
    port = free_port()
    folder = Path(tempfile.mkdtemp(prefix="virt-dra-bench-start-"))
    supervisor = Supervisor(folder)
    begun = time.perf_counter()
    try:
        pid = supervisor.start(command((*arguments, "--plain-port", str(port))), folder / "log")
        while not _answers(port):
            if supervisor.status(pid) is not None or time.perf_counter() - begun > _WAIT_SECONDS:
                raise RuntimeError(
                    f"virt-dra {arguments[0]} doesn't become "
                    f"ready:\n{(folder / 'log').read_text(errors='replace')[-2000:]}"
                )
            time.sleep(0.01)
        seconds = time.perf_counter() - begun
        supervisor.signal(pid, signal.SIGTERM)
        while supervisor.status(pid) is None:
            time.sleep(0.01)
        return seconds
    finally:
        supervisor.close()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False
