"""Finding the way to a cluster: which configuration is used, and what is said when there is no way."""

from __future__ import annotations

import json
import ssl
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from devtools.cluster.control_plane import ControlPlane
from devtools.cluster.credentials import Credentials
from devtools.cluster.scripted_server import (
    VERSION,
    json_answer,
    scripted_server,
    status,
    text_answer,
    write_kubeconfig,
)
from virt_dra.api.core_v1 import Namespace, Pod
from virt_dra.cluster.kube import service_account
from virt_dra.cluster.kube.cluster import ConnectionProblem, connect
from virt_dra.cluster.port import Forbidden, Unauthorized


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration of the machine's."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


async def problem(kubeconfig: Path | None = None, context: str | None = None) -> tuple[str, str]:
    """Reason and message."""
    with pytest.raises(ConnectionProblem) as caught:
        async with connect(None if kubeconfig is None else str(kubeconfig), context):
            pass
    return caught.value.reason, str(caught.value)


async def test_no_configuration() -> None:
    assert await problem() == (
        "NoConfiguration",
        "no cluster is configured: neither $KUBECONFIG nor ~/.kube/config is "
        "there, and this is no pod with a service account. "
        "Give --kubeconfig FILE or set KUBECONFIG",
    )


async def test_a_file_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = tmp_path / "missing"
    assert await problem(missing) == ("NoConfiguration", f"kubeconfig {missing} does not exist: check the path")
    monkeypatch.setenv("KUBECONFIG", str(missing))
    advice = "$KUBECONFIG names it: check the path, or unset it"
    assert await problem() == ("NoConfiguration", f"kubeconfig {missing} does not exist: {advice}")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "it isn't a kubeconfig"),
        ("[]", "it isn't a kubeconfig"),
        ("7", "it isn't a kubeconfig"),
        ("a: b: c", "mapping values are not allowed here"),
        ("{}", "Expected key current-context"),
        ("{current-context: a, contexts: [], clusters: [], users: []}", "Expected"),
        ("{current-context: a, contexts: [{name: a, context: {cluster: b}}], clusters: []}", "Expected"),
        ("{current-context: a, contexts: [{name: a, context: 7}], clusters: []}", "it isn't a kubeconfig"),
    ],
)
async def test_a_file_that_is_no_kubeconfig(tmp_path: Path, text: str, wanted: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    reason, message = await problem(path)
    assert reason == "BadConfiguration"
    assert message.startswith(f"kubeconfig {path} can't be used: ")
    assert wanted in message


async def test_a_context_that_is_not_there(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1", {})
    assert await problem(path, "other") == (
        "BadConfiguration",
        f'kubeconfig {path} can\'t be used: it has no context "other"; kubectl config get-contexts shows those it has',
    )


async def test_certificates_that_are_none(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "https://127.0.0.1:1", {}, {"certificate-authority-data": "bm9uZQ=="})
    reason, message = await problem(path)
    assert reason == "BadConfiguration"
    assert message.startswith(f'the certificates of kubeconfig {path}, context "test" can\'t be used: ')


async def test_nobody_answers(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1", {})
    reason, message = await problem(path)
    assert reason == "Unreachable"
    assert message.startswith("http://127.0.0.1:1 can't be reached: Connection refused; tried ")
    assert message.endswith(
        f'tried http://127.0.0.1:1 (kubeconfig {path}, context "test"): '
        "check that the server runs and that its address and port are right, and the network and proxy on the way"
    )


@pytest.mark.parametrize(
    ("answer", "reason", "beginning"),
    [
        (
            status(401, "Unauthorized", "Unauthorized"),
            "Unauthorized",
            "the server refused our credentials: Unauthorized; tried ",
        ),
        (status(403, "Forbidden", "no entry"), "Forbidden", "the server knows us but refuses us: no entry; tried "),
        (
            text_answer("<html>not here</html>", 404),
            "Unreachable",
            "the server answered 404: <html>not here</html>; tried ",
        ),
        (text_answer("<html>hello</html>"), "Unreachable", "the server answered what is no JSON: "),
    ],
)
async def test_a_server_that_refuses_us(tmp_path: Path, answer: Any, reason: str, beginning: str) -> None:
    async with scripted_server() as server:
        server.answers("GET", "/version", answer)
        message = await problem(write_kubeconfig(tmp_path, server.url, {"token": "t"}))
        assert message[0] == reason
        assert message[1].startswith(beginning)


@pytest.mark.control_plane
async def test_a_server_that_is_not_trusted(control_plane: ControlPlane, tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path, control_plane.server, {"token": "t"})
    reason, message = await problem(path)
    assert reason == "TLS"
    assert message.endswith(
        "check certificate-authority in the kubeconfig, and that the server's name is in its certificate"
    )


@pytest.mark.control_plane
async def test_a_token_nobody_knows_and_a_user_without_rights(control_plane: ControlPlane, tmp_path: Path) -> None:
    text = Path(control_plane.kubeconfig_of_user("nobody")).read_text()
    path = tmp_path / "config"
    path.write_text(text)

    async with connect(str(path)) as cluster:
        with pytest.raises(Forbidden):
            await cluster.list(Pod)
    await _refused_token(control_plane, tmp_path)


async def _refused_token(plane: ControlPlane, folder: Path) -> None:
    path = write_kubeconfig(folder, plane.server, {"token": "unknown"}, {"insecure-skip-tls-verify": True})
    assert (await problem(path))[0] == "Unauthorized"


async def test_kubeconfig_of_the_environment_then_of_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_server() as first, scripted_server() as second:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, first.url, {})))
        home = tmp_path / "home" / ".kube"
        home.mkdir(parents=True)
        write_kubeconfig(home, second.url, {}).rename(home / "config")
        async with connect() as cluster:
            assert cluster.transport.server == first.url
        monkeypatch.delenv("KUBECONFIG")
        async with connect() as cluster:
            assert cluster.transport.server == second.url


@asynccontextmanager
async def pod(folder: Path, monkeypatch: pytest.MonkeyPatch, known: Collection[str]) -> AsyncIterator[list[str]]:
    """An API server over TLS that knows some tokens, and what is asked of it; this process has a pod's environment. The
    account's files are where the test says, since nobody may write to a pod's place here."""
    credentials = Credentials(folder / "pki")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(credentials.certificate, credentials.key)
    asked: list[str] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.headers["Authorization"])
        if asked[-1].removeprefix("Bearer ") not in known:
            return web.json_response({"kind": "Status", "reason": "Unauthorized"}, status=401)
        return web.json_response(VERSION)

    runner = web.ServerRunner(web.Server(handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    (folder / "ca.crt").write_bytes(Path(credentials.authority).read_bytes())
    monkeypatch.setattr(service_account, "FOLDER", folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(runner.addresses[0][1]))
    try:
        yield asked
    finally:
        await runner.cleanup()


async def test_the_token_of_a_pods_service_account_is_read_again_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    async with pod(tmp_path, monkeypatch, ("one", "two")) as asked, connect() as cluster:
        token.write_text("two")
        await cluster.server_version()
        monkeypatch.setattr(service_account, "TOKEN_SECONDS", 0.0)
        await cluster.server_version()
        given = await cluster.credentials()
    assert asked == ["Bearer one", "Bearer one", "Bearer two"]
    assert (given.token, given.ca_file, given.verify) == ("two", str(tmp_path / "ca.crt"), True)


async def test_a_token_that_was_refused_is_read_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    known = ["one"]
    async with pod(tmp_path, monkeypatch, known) as asked, connect() as cluster:
        known[:] = ["two"]
        token.write_text("two")
        await cluster.server_version()
        known.clear()
        with pytest.raises(Unauthorized):
            await cluster.server_version()
    assert asked == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]


@pytest.mark.parametrize(
    ("files", "port", "why"),
    [
        ({"token": "", "ca.crt": "x"}, "443", "{folder}/token is empty"),
        ({"token": "one"}, "443", "[Errno 2] No such file or directory: '{folder}/ca.crt'"),
        (
            {"token": "one", "ca.crt": "x"},
            "",
            "$KUBERNETES_SERVICE_HOST and $KUBERNETES_SERVICE_PORT must name the API server",
        ),
    ],
    ids=["a token without content", "no authority", "no port"],
)
async def test_a_service_account_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], port: str, why: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(service_account, "FOLDER", tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    said = f"the pod's service account can't be used: {why.format(folder=tmp_path)}"
    assert await problem() == ("BadConfiguration", said)


def test_a_process_in_a_pod_does_not_import_the_kubernetes_package() -> None:
    """It takes 10 MiB, of the 60 that a node driver may have."""
    imports = "import sys, virt_dra.cluster.kube.cluster, virt_dra.cluster.kube.service_account"
    ran = subprocess.run(
        [sys.executable, "-c", f"{imports}; print('kubernetes' in sys.modules)"],
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout == "False\n"


async def test_credentials_of_a_program(tmp_path: Path) -> None:
    program = tmp_path / "login"
    credential = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-a-program"},
    }
    program.write_text(f"#!{sys.executable}\nprint({json.dumps(json.dumps(credential))})\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program)}}

    async with scripted_server() as server:
        async with connect(str(write_kubeconfig(tmp_path, server.url, user))):
            pass
        assert [request.headers["Authorization"] for request in server.asked] == ["Bearer from-a-program"]


@pytest.mark.control_plane
async def test_a_client_certificate_and_reading_with_it(control_plane: ControlPlane) -> None:
    async def test() -> list[str]:
        async with connect(str(control_plane.kubeconfig)) as cluster:
            return [obj.name for obj in (await cluster.list(Namespace)).items]

    assert "default" in await test()


async def test_the_server_is_asked_once_when_it_answers(tmp_path: Path) -> None:
    async with scripted_server() as server:
        server.answers("GET", "/version", status(503, "ServiceUnavailable", "starting"), json_answer(VERSION))
        async with connect(str(write_kubeconfig(tmp_path, server.url, {}))):
            assert len(server.asked) == 2


async def test_a_proxy_of_the_environment_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with scripted_server() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        config = write_kubeconfig(tmp_path, "http://cluster.invalid:8001", {})
        async with connect(str(config)):
            assert [(request.path, request.host) for request in proxy.asked] == [("/version", "cluster.invalid")]


async def test_a_server_without_proxy_and_a_password_of_netrc_is_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".netrc").write_text("machine 127.0.0.1 login someone password secret\n")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with scripted_server() as server, connect(str(write_kubeconfig(tmp_path, server.url, {}))):
        assert [request.headers.get("Authorization") for request in server.asked] == [None]
