"""Standalone, on a real control plane with webhook, operator and keeper as they are installed: a VM keeps its devices
for its own annotation, for its template's and for its profile's, while another wants them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from devtools.cluster.control_plane import CONTROLLERS, SCHEDULER, ControlPlane, require
from devtools.faults.ledger import audit_arguments
from devtools.faults.site import IDENTITY, site
from tests.controllers.keeping.test_bad_input import Users
from virt_dra.api.keeping.terms import KEEP_ANNOTATION
from virt_dra.installation.plan import STANDALONE

pytestmark = pytest.mark.control_plane(seconds=15)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    """Of a node with one device."""
    require(SCHEDULER, CONTROLLERS)
    folder = tmp_path_factory.mktemp("standalone")
    arguments, log = audit_arguments(folder)
    with (
        ControlPlane(arguments=arguments) as plane,
        site(plane, log, STANDALONE, folder, 1, "--keeper") as here,
        ExitStack() as stack,
    ):
        keeper, _ = (stack.enter_context(start("--identity", IDENTITY)) for start in (here.keeper, here.operator))
        yield Users(here, keeper.ready())


@pytest.mark.parametrize("asked", ["vm", "template", "profile"])
def test_a_stopped_vm_keeps_its_device(users: Users, asked: str) -> None:
    """``asked``: where the VM asks to keep it."""
    name, rival = f"keeps-by-{asked}", f"wants-from-{asked}"
    with users.profile(f"of-{asked}", keep={"stoppedFor": "24h"}) as profile:
        match asked:
            case "vm":
                users.vm(name, None, metadata={KEEP_ANNOTATION: "true"})
            case "template":
                users.vm(name, "true")
            case _:
                users.vm(name, None, line=profile)
        claim = f"{name}-{profile if asked == 'profile' else 'gpu'}"
        users.runs(name)
        before = users.held(claim, name)
        users.stop(name)
        users.stopped(claim)
        users.vm(rival, None)
        users.said("DevicesNotAllocatable", "1 device: in use", ("VirtualMachineInstance", rival))
        users.start(name)
        users.runs(name)
        after = users.held(claim, name)
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["status"]["allocation"] == before["status"]["allocation"]
        users.delete(name)
        users.runs(rival)
        users.delete(rival)
