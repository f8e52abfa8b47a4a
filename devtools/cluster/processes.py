"""Our components as processes beside a real control plane: ``virt-dra operator``, ``webhook --live`` and
``webhook-certificates``.

Use them as context managers. Methods block; from asyncio call them in a thread. They end with the test process,
whatever ended that (see :mod:`.supervisor`), and what a component said is shown where the body of its ``with`` fails.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.mounted import MountedSecret
from devtools.cluster.ports import free_port
from devtools.cluster.supervisor import Supervisor

PROGRAM = "from virt_dra.cli.main import main; main()"
WAIT_SECONDS = 60.0
"""For whatever a loaded machine takes; nothing waits that long on one of one's own."""
_POLL_SECONDS = 0.05
_TAIL_LINES = 40
_SAMPLE = re.compile(r"^([a-zA-Z_:][\w:]*)(\{[^}]*\})? (\S+)$", re.MULTILINE)


class ComponentError(AssertionError):
    """A component that ended, or isn't ready; the text ends with what it said last."""


class Component:
    """A running ``virt-dra …``. :attr:`plain_port` answers /metrics and /readyz; :attr:`port`: of the webhook's
    reviews, with TLS; :attr:`health_port`: of the operator's /healthz."""

    def __init__(
        self, name: str, arguments: tuple[str, ...], *,
        plain_port: int, port: int = 0, health_port: int = 0, environment: Mapping[str, str] | None = None,
        stack: ExitStack | None = None,
    ) -> None:  # fmt: skip
        """``stack``: what is closed after it."""
        self._stack = stack or ExitStack()
        self.name, self.plain_port, self.port, self.health_port = name, plain_port, port, health_port
        folder = Path(tempfile.mkdtemp(prefix=f"virt-dra-{name}-"))
        self._log = folder / "log"
        self._supervisor = Supervisor(folder)
        self._text = ""
        self.pid = self._supervisor.start([sys.executable, "-c", PROGRAM, *arguments], self._log, environment)

    # --- life ---

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            sys.stderr.write(f"--- {self.name}, process {self.pid}, exit code {self.exit_code()}\n{self.tail()}\n")
        self.close()

    def close(self) -> None:
        """Ends it at once, if it runs, and removes its log, which can still be read here."""
        self._text = self.said()
        self._supervisor.close()
        self._stack.close()

    def terminate(self) -> int:
        """SIGTERM; its exit code, once it has ended. Raises :class:`ComponentError` if it doesn't."""
        self.send(signal.SIGTERM)
        return self.ended()

    def ended(self, seconds: float = WAIT_SECONDS) -> int:
        """Its exit code, once it has ended; the negative signal if one killed it. Raises :class:`ComponentError`."""
        end = time.monotonic() + seconds
        while (code := self.exit_code()) is None:
            if time.monotonic() > end:
                raise ComponentError(f"{self.name} still runs after {seconds:.0f} s:\n{self.tail()}")
            time.sleep(_POLL_SECONDS)
        return code

    def kill(self) -> None:
        """SIGKILL, and wait: whatever it was doing, it does nothing more."""
        self._supervisor.end(self.pid)

    def pause(self) -> None:
        """SIGSTOP: it is there, its connections too, and it does nothing."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        self.send(signal.SIGCONT)

    def send(self, number: signal.Signals) -> None:
        self._supervisor.signal(self.pid, number)

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._supervisor.status(self.pid)

    # --- what it says ---

    def ready(self, seconds: float = WAIT_SECONDS) -> Self:
        """Waits until /readyz answers 200. Raises :class:`ComponentError` where it ends, or doesn't in time."""
        end = time.monotonic() + seconds
        while (answer := self.get("/readyz"))[0] != 200:
            code = self.exit_code()
            if code is not None:
                raise ComponentError(f"{self.name} has ended with {code}:\n{self.tail()}")
            if time.monotonic() > end:
                raise ComponentError(
                    f"{self.name} isn't ready after {seconds:.0f} s ({answer[1].strip()}):\n{self.tail()}"
                )
            time.sleep(_POLL_SECONDS)
        return self

    def get(self, path: str, port: int = 0) -> tuple[int, str]:
        """Code and text of an answer without TLS; code 0 where there is none. ``port``: as a default the plain one."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.plain_port}{path}", timeout=5) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)

    def healthy(self) -> bool:
        """Whether the operator's /healthz answers 200."""
        return self.get("/healthz", self.health_port)[0] == 200

    def metrics(self) -> Mapping[str, float]:
        """What /metrics says: ``name{labels}`` -> value. Raises :class:`ComponentError`."""
        code, text = self.get("/metrics")
        if code != 200:
            raise ComponentError(f"{self.name} has no metrics: {code} {text}\n{self.tail()}")
        return {f"{name}{labels or ''}": float(value) for name, labels, value in _SAMPLE.findall(text)}

    def said(self) -> str:
        """All that it wrote to standard output and standard error."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else self._text

    def log(self) -> list[dict[str, Any]]:
        """Its log so far, whole lines only; what isn't JSON is a line with nothing but ``message``."""
        lines = self.said().split("\n")[:-1]
        return [json.loads(line) if line.startswith("{") else {"message": line} for line in lines]

    def tail(self) -> str:
        return "\n".join(self.said().splitlines()[-_TAIL_LINES:])


def operator(
    plane: ControlPlane, kubeconfig: Path | None = None, *options: str,
    plain_port: int = 0, health_port: int = 0, environment: Mapping[str, str] | None = None,
) -> Component:  # fmt: skip
    """``virt-dra operator``, as the user of ``kubeconfig`` (None: the admin). Ports are free ones unless they are
    given.

    Its Lease is in the namespace ``virt-dra`` unless ``--own-namespace`` or ``--no-election`` is among the options.
    """
    return _controller("operator", plane, kubeconfig, options, plain_port, health_port, environment)


def keeper(
    plane: ControlPlane, kubeconfig: Path | None = None, *options: str, environment: Mapping[str, str] | None = None
) -> Component:
    """``virt-dra keeper``, as :func:`operator`."""
    return _controller("keeper", plane, kubeconfig, options, environment=environment)


def _controller(
    name: str, plane: ControlPlane, kubeconfig: Path | None, options: tuple[str, ...],
    plain_port: int = 0, health_port: int = 0, environment: Mapping[str, str] | None = None,
) -> Component:  # fmt: skip
    plain, health = plain_port or free_port(), health_port or free_port()
    ports = ("--host", "127.0.0.1", "--plain-port", str(plain), "--health-port", str(health))
    arguments = (name, "--kubeconfig", str(kubeconfig or plane.kubeconfig), *ports, *options)
    return Component(name, arguments, plain_port=plain, health_port=health, environment=environment)


def webhook(
    plane: ControlPlane, kubeconfig: Path | None = None, *options: str,
    port: int = 0, plain_port: int = 0, environment: Mapping[str, str] | None = None,
) -> Component:  # fmt: skip
    """``virt-dra webhook --live``, as the user of ``kubeconfig`` (None: the admin), which ends without announcing it.
    It mounts the Secret of an installed virt-dra, and so waits for :func:`certificates`."""
    serving, plain = port or free_port(), plain_port or free_port()
    ports = ("--host", "127.0.0.1", "--port", str(serving), "--plain-port", str(plain), "--announce", "0")
    stack = ExitStack()
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="virt-dra-tls-")))
    try:
        stack.enter_context(MountedSecret(plane, "virt-dra", "virt-dra-webhook-tls", folder))
        given = tuple(option for option in options if not option.startswith("--tls-dir"))
        cluster = ("--kubeconfig", str(kubeconfig or plane.kubeconfig), "--client-ca", str(plane.webhook_client_ca))
        arguments = ("webhook", "--live", *cluster, f"--tls-dir={folder}", *ports, *given)
        return Component("webhook", arguments, plain_port=plain, port=serving, environment=environment, stack=stack)
    except BaseException:
        stack.close()
        raise


def certificates(
    plane: ControlPlane, kubeconfig: Path | None = None, *options: str, environment: Mapping[str, str] | None = None
) -> Component:
    """``virt-dra webhook-certificates`` for ``https://localhost``, as the user of ``kubeconfig`` (None: the admin)."""
    named = ("--dns-name", "localhost", "--dns-name", "127.0.0.1", "--own-namespace", "virt-dra", "--every", "0.5")
    arguments = ("webhook-certificates", "--kubeconfig", str(kubeconfig or plane.kubeconfig), *named, *options)
    return Component("certificates", arguments, plain_port=0, environment=environment)
