"""KubeVirt's webhooks on loopback, for a real API server; and the same in front of an embedded cluster."""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, cast

from aiohttp import web

from devtools.agents.kubevirt_admission import KubeVirtAdmission, Operation, patch_between
from devtools.agents.kubevirt_crds import pruned_object, stored_schemas
from virt_dra.api.core_v1 import Pod
from virt_dra.api.kubevirt_v1 import KubeVirt, VirtualMachine, VirtualMachineInstance
from virt_dra.api.meta import ObjectT, TypedObject, format_time
from virt_dra.api.schemas.walk import faults
from virt_dra.api.wire import Json
from virt_dra.cluster.memory import patches
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import Invalid, Listed, StatusCause, WatchEvent
from webhooks.review import Review, answer, read_review
from webhooks.tls.authority import SystemKeys, bootstrap
from webhooks.verdict import Verdict

MUTATOR = "virtualmachineinstances-mutator.kubevirt.io"
VM_MUTATOR = "virtualmachines-mutator.kubevirt.io"
CREATE_VALIDATOR = "virtualmachineinstances-create-validator.kubevirt.io"
UPDATE_VALIDATOR = "virtualmachineinstances-update-validator.kubevirt.io"
VM_VALIDATOR = "virtualmachine-validator.kubevirt.io"
MUTATING, VALIDATING = "virt-api-mutator", "virt-api-validator"

Clock = Callable[[], datetime]


def configurations(url: str, ca_bundle: bytes) -> tuple[Json, Json]:
    """The mutating and the validating webhook configuration for webhooks below ``url``."""
    kinds = "virtualmachineinstances"

    def webhook(name: str, path: str, resource: str, *operations: str) -> Json:
        return {
            "name": name,
            "clientConfig": {"url": f"{url}/{path}", "caBundle": base64.b64encode(ca_bundle).decode()},
            "rules": [
                {
                    "apiGroups": ["kubevirt.io"],
                    "apiVersions": ["v1"],
                    "operations": list(operations),
                    "resources": [resource],
                }
            ],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": 10,
            "admissionReviewVersions": ["v1"],
        }

    head = {"apiVersion": "admissionregistration.k8s.io/v1"}
    mutating = [
        webhook(MUTATOR, "mutate", kinds, "CREATE", "UPDATE"),
        webhook(VM_MUTATOR, "mutate", "virtualmachines", "CREATE", "UPDATE"),
    ]
    validating = [
        webhook(CREATE_VALIDATOR, "validate", kinds, "CREATE"),
        webhook(UPDATE_VALIDATOR, "validate", kinds, "UPDATE"),
        webhook(VM_VALIDATOR, "validate", "virtualmachines", "CREATE", "UPDATE"),
    ]
    return (
        {**head, "kind": "MutatingWebhookConfiguration", "metadata": {"name": MUTATING}, "webhooks": mutating},
        {**head, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": VALIDATING}, "webhooks": validating},
    )


@asynccontextmanager
async def served(admission: KubeVirtAdmission) -> AsyncIterator[tuple[Json, Json]]:
    """The webhooks on a port of loopback; their configurations."""

    async def mutate(request: web.Request) -> web.Response:
        review = read_review(await request.read())
        before = review.object or {}
        after = admission.mutated(_operation(review), review.user, before, review.old, format_time(datetime.now(UTC)))
        return web.json_response(answer(review.uid, Verdict(allowed=True, patch=patch_between(before, after))))

    async def validate(request: web.Request) -> web.Response:
        review = read_review(await request.read())
        verdict = admission.judged(_operation(review), review.user, review.object or {}, review.old)
        # The warnings are virt-dra's own, which shares the rules; KubeVirt has none of them.
        return web.json_response(answer(review.uid, Verdict(verdict.allowed, verdict.causes)))

    bundle = bootstrap(("127.0.0.1",), datetime.now(UTC), SystemKeys())
    app = web.Application(client_max_size=4 * 1024 * 1024)
    app.add_routes([web.post("/mutate", mutate), web.post("/validate", validate)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(
            runner, "127.0.0.1", 0, ssl_context=await asyncio.to_thread(virt_api_context, bundle.to_files())
        )
        await site.start()
        port = runner.addresses[0][1]
        yield configurations(f"https://127.0.0.1:{port}", bundle.ca_bundle)
    finally:
        await _close(runner)


async def _close(runner: web.AppRunner) -> None:
    """Ends the server and cuts its connections: an API server keeps them open, and a TLS peer that is slow to say
    goodbye would leave them behind when the event loop ends."""
    for connection in runner.server.connections if runner.server is not None else ():
        if connection.transport is not None:
            connection.transport.abort()
    await runner.cleanup()


def _operation(review: Review) -> Operation:
    return "CREATE" if review.operation == "CREATE" else "UPDATE"


def virt_api_context(files: Mapping[str, bytes]) -> ssl.SSLContext:
    """Of virt-api's server, from the files ``tls.crt``, ``tls.key`` and ``ca.crt``: a client needs no certificate, but
    the connection ends if it presents one of another authority."""
    context = server_context(files)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=files["ca.crt"].decode())
    return context


def server_context(files: Mapping[str, bytes]) -> ssl.SSLContext:
    """Of a TLS server, from the files ``tls.crt`` and ``tls.key``."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("tls.crt", "tls.key"):
            Path(folder, name).write_bytes(files[name])
        context.load_cert_chain(Path(folder, "tls.crt"), Path(folder, "tls.key"))
    return context


class EmbeddedBesideKubeVirt:
    """An embedded cluster as users other than KubeVirt see it: VMs and VMIs are pruned, completed, judged and restored
    as beside a real one. Implements the port. KubeVirt's own writes go to the embedded cluster itself, after
    :meth:`as_stored`.

    ``user`` is who writes; everything that isn't KubeVirt's kind passes through.
    """

    def __init__(
        self, cluster: MemoryCluster, admission: KubeVirtAdmission, user: str = "somebody", clock: Clock | None = None
    ) -> None:
        self._cluster, self._admission, self._user = cluster, admission, user
        self._clock = clock or (lambda: datetime.now(UTC))
        self._schemas = stored_schemas(admission.gates.version)

    async def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT:
        return await self._cluster.get(kind, name, namespace)

    async def list(
        self, kind: type[ObjectT], namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> Listed[ObjectT]:
        return await self._cluster.list(kind, namespace, labels=labels, fields=fields)

    def watch(
        self, kind: type[ObjectT], namespace: str = "", *, resource_version: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[WatchEvent[ObjectT]]:
        return self._cluster.watch(kind, namespace, resource_version=resource_version, labels=labels, fields=fields)

    async def create(self, obj: ObjectT) -> ObjectT:
        return await self._cluster.create(self._admitted("CREATE", obj, None))

    async def update(self, obj: ObjectT) -> ObjectT:
        if not self._concerns(type(obj)):
            return await self._cluster.update(obj)
        old = await self._cluster.get(type(obj), obj.name, obj.namespace)
        return await self._cluster.update(self._admitted("UPDATE", obj, old))

    async def update_status(self, obj: ObjectT) -> ObjectT:
        return await self._cluster.update_status(obj)

    async def patch(
        self, kind: type[ObjectT], name: str, namespace: str = "", *, merge: dict[str, Any] | None = None,
        operations: Sequence[dict[str, Any]] | None = None, subresource: Literal["", "status"] = "",
    ) -> ObjectT:  # fmt: skip
        if not self._concerns(kind) or subresource or (merge is None) == (operations is None):
            return await self._cluster.patch(
                kind, name, namespace, merge=merge, operations=operations, subresource=subresource
            )
        old = await self._cluster.get(kind, name, namespace)
        wire = old.to_wire()
        changed = patches.merged(wire, merge) if merge is not None else patches.patched(wire, operations or ())
        # It carries the version it was made from, or the one the patch demands, so that no write in between is lost.
        return await self._cluster.update(self._admitted("UPDATE", kind.from_wire(cast("Json", changed)), old))

    async def bind(self, pod: Pod, node: str) -> None:
        await self._cluster.bind(pod, node)

    async def delete(
        self, kind: type[ObjectT], name: str, namespace: str = "", *,
        uid: str = "", resource_version: str = "", grace_seconds: int | None = None,
    ) -> None:  # fmt: skip
        await self._cluster.delete(
            kind, name, namespace, uid=uid, resource_version=resource_version, grace_seconds=grace_seconds
        )

    def as_stored(self, obj: ObjectT) -> ObjectT:
        """Without the fields that this KubeVirt doesn't know."""
        schema = self._schemas.get(type(obj).KIND) if self._concerns(type(obj)) else None
        return obj if schema is None else type(obj).from_wire(pruned_object(obj.to_wire(), schema))

    def _concerns(self, kind: type[TypedObject]) -> bool:
        return issubclass(kind, (VirtualMachine, VirtualMachineInstance, KubeVirt))

    def _admitted(self, operation: Operation, obj: ObjectT, old: ObjectT | None) -> ObjectT:
        if not self._concerns(type(obj)) or isinstance(obj, KubeVirt):
            return obj
        before = None if old is None else old.to_wire()
        wire = self._admission.mutated(
            operation, self._user, self.as_stored(obj).to_wire(), before, format_time(self._clock())
        )
        wrong = tuple(faults({**wire, "metadata": {}}, self._schemas[type(obj).KIND]))
        if wrong:
            raise Invalid(
                f"{type(obj).KIND} is invalid: {wrong[0].path}: {wrong[0].message}",
                tuple(StatusCause(f.path, f.type, f.message) for f in wrong),
            )
        verdict = self._admission.judged(operation, self._user, wire, before)
        if not verdict.allowed:
            name = (
                VM_VALIDATOR
                if isinstance(obj, VirtualMachine)
                else CREATE_VALIDATOR
                if operation == "CREATE"
                else UPDATE_VALIDATOR
            )
            causes = tuple(StatusCause(cause.field, cause.type, cause.message) for cause in verdict.causes)
            raise Invalid(f'admission webhook "{name}" denied the request: {verdict.message}', causes)
        return type(obj).from_wire(wire)
