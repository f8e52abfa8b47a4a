"""The authority that replicas share in a Secret: made by the first, used by all, renewed by one, trusted before it is served."""

from __future__ import annotations

import asyncio
import base64
import errno
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509

from virt_dra.api.meta import UnknownObject
from virt_dra.api.wire import Json
from virt_dra.cli.webhook_tls import CONFIGURATIONS, SECRET, NotSettled, SharedAuthority
from virt_dra.cluster.memory import MemoryCluster
from virt_dra.cluster.port import ApiError, Forbidden
from webhooks.tls_authority import Bundle
from webhooks.tls_secret import files_of
from webhooks.tls_supplied import SuppliedCertificate

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VALIDATING, MUTATING = CONFIGURATIONS


class Room:
    """A cluster and replicas of the webhook in it, at a time that the test sets."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster.deterministic()
        self.now = NOW

    def replica(self, *names: str) -> SharedAuthority:
        names = names or ("localhost",)
        return SharedAuthority(self.cluster, "tls", "virt-dra", names, "virt-dra", SuppliedCertificate(), lambda: self.now)

    async def configure(self, *webhooks: Json) -> None:
        for kind in CONFIGURATIONS:
            raw = {"apiVersion": kind.API_VERSION, "kind": kind.KIND, "metadata": {"name": "virt-dra"}, "webhooks": list(webhooks)}
            await self.cluster.create(UnknownObject.from_wire(raw))

    async def secret(self) -> Json:
        return (await self.cluster.get(SECRET, "tls", "virt-dra")).to_wire()

    async def bundle(self) -> Bundle:
        return Bundle.from_files(files_of(await self.secret()))

    async def trusted(self) -> list[bytes]:
        """The caBundle of every webhook of both configurations."""
        found: list[bytes] = []
        for kind in CONFIGURATIONS:
            raw = (await self.cluster.get(kind, "virt-dra")).to_wire()
            found += [base64.b64decode(each["clientConfig"].get("caBundle", "")) for each in raw["webhooks"]]
        return found

    def served(self, replica: SharedAuthority) -> x509.Certificate:
        return x509.load_pem_x509_certificate(replica.served.certificate.read_bytes())


def run(test: Callable[[Room], Awaitable[None]]) -> None:
    asyncio.run(_awaited(test(Room())))


async def _awaited(what: Awaitable[None]) -> None:
    await what


HOOK: Json = {"name": "a.virt-dra.io", "clientConfig": {"url": "https://localhost/"}}


def test_the_first_replica_makes_it_and_the_others_use_it() -> None:
    async def steps(room: Room) -> None:
        await room.configure(HOOK, {**HOOK, "name": "b.virt-dra.io"})
        one, other = room.replica(), room.replica()
        await one.settle()
        made = await room.secret()
        assert made["type"] == "kubernetes.io/tls"
        assert made["metadata"]["labels"] == {"app.kubernetes.io/part-of": "virt-dra"}
        await other.settle()
        assert await room.secret() == made
        bundle = await room.bundle()
        assert room.served(one) == room.served(other) == bundle.serving.certificate
        assert await room.trusted() == [bundle.ca_bundle] * 4

    run(steps)


def test_all_at_once_agree() -> None:
    async def steps(room: Room) -> None:
        await room.configure(HOOK)
        replicas = [room.replica() for _ in range(5)]
        await asyncio.gather(*(replica.settle() for replica in replicas))
        assert {room.served(replica) for replica in replicas} == {(await room.bundle()).serving.certificate}

    run(steps)


def test_nothing_is_written_while_nothing_is_due() -> None:
    async def steps(room: Room) -> None:
        await room.configure(HOOK)
        replica = room.replica()
        await replica.settle()
        version, link = room.cluster.resource_version, replica.served.certificate
        room.now += timedelta(days=59)
        await replica.settle()
        await room.replica().settle()
        assert (room.cluster.resource_version, replica.served.certificate) == (version, link)

    run(steps)


def test_renewals_through_the_years_never_leave_a_client_without_trust() -> None:
    """Two replicas look by turns, a month apart, over 25 years; at no time is one served by what wasn't trusted a look before."""

    async def steps(room: Room) -> None:
        await room.configure(HOOK)
        replicas = [room.replica(), room.replica()]
        for replica in replicas:
            await replica.settle()
        authorities, certificates = set(), set()
        for month in range(300):
            trusted = x509.load_pem_x509_certificates((await room.trusted())[0])
            room.now += timedelta(days=30)
            await replicas[month % 2].settle()
            await replicas[1 - month % 2].settle()
            served = {room.served(replica) for replica in replicas}
            assert len(served) == 1
            (certificate,) = served
            assert certificate.not_valid_before_utc <= room.now < certificate.not_valid_after_utc
            assert any(_signed(certificate, authority) for authority in trusted if room.now < authority.not_valid_after_utc)
            certificates.add(certificate)
            authorities.add((await room.bundle()).authority.certificate)
        assert len(authorities) > 3
        assert len(certificates) > 100

    run(steps)


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001 - whatever it says, it isn't
        return False
    return True


def test_a_secret_that_vanished_gets_back_what_is_served() -> None:
    async def steps(room: Room) -> None:
        replica = room.replica()
        await replica.settle()
        files = files_of(await room.secret())
        await room.cluster.delete(SECRET, "tls", "virt-dra")
        await replica.settle()
        assert files_of(await room.secret()) == files

    run(steps)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="empty, as the manifests make it"),
        pytest.param(
            {"tls.crt": "eA==", "tls.key": "eA==", "ca.crt": "eA==", "other": "eA=="}, id="of cert-manager, without the authority's key"
        ),
    ],
)
def test_a_secret_that_is_not_ours_yet_is_filled(data: Json | None) -> None:
    async def steps(room: Room) -> None:
        metadata = {"name": "tls", "namespace": "virt-dra", "labels": {"a": "b"}}
        await room.cluster.create(SECRET.from_wire({"metadata": metadata, "type": "Opaque", **({"data": data} if data else {})}))
        replica = room.replica()
        await replica.settle()
        assert room.served(replica) == (await room.bundle()).serving.certificate
        secret = await room.secret()
        assert (secret["type"], secret["metadata"]["labels"]) == ("Opaque", {"a": "b"})
        assert secret["data"].keys() - {"tls.crt", "tls.key", "ca.crt", "ca.key"} == ({"other"} if data else set())

    run(steps)


def test_a_secret_that_cannot_be_read_is_not_overwritten() -> None:
    async def steps(room: Room) -> None:
        data = dict.fromkeys(("tls.crt", "tls.key", "ca.crt", "ca.key"), "bWluZQ==")
        await room.cluster.create(SECRET.from_wire({"metadata": {"name": "tls", "namespace": "virt-dra"}, "data": data}))
        with pytest.raises(NotSettled) as caught:
            await room.replica().settle()
        told = "Secret virt-dra/tls: ca.crt holds no certificate in PEM; delete the Secret, or correct it; it is not overwritten"
        assert str(caught.value) == told
        assert (await room.secret())["data"] == data
        await room.cluster.update(SECRET.from_wire({**await room.secret(), "data": {**data, "ca.key": "?"}}))
        with pytest.raises(NotSettled, match=r"ca\.key is not base64"):
            await room.replica().settle()

    run(steps)


def test_other_names_are_taken_over_by_who_starts_with_them() -> None:
    """And not back again by a replica that still runs with the old ones."""

    async def steps(room: Room) -> None:
        old = room.replica("old.example.com")
        await old.settle()
        new = room.replica("new.example.com")
        await new.settle()
        after = await room.secret()
        await old.settle()
        assert await room.secret() == after
        assert room.served(old) == room.served(new)

    run(steps)


def test_webhooks_that_are_added_or_emptied_are_told_again() -> None:
    async def steps(room: Room) -> None:
        replica = room.replica()
        await replica.settle()  # there is no configuration yet
        await room.configure(HOOK)
        await replica.settle()
        added = [*(await room.cluster.get(MUTATING, "virt-dra")).to_wire()["webhooks"], {**HOOK, "name": "c.virt-dra.io"}]
        await room.cluster.patch(MUTATING, "virt-dra", merge={"webhooks": added})
        await replica.settle()
        assert await room.trusted() == [(await room.bundle()).ca_bundle] * 3

    run(steps)


def test_no_descriptor_for_the_certificate_ends_no_replica(caplog: pytest.LogCaptureFixture) -> None:
    """As where a flood of connections has taken all of them."""

    async def steps(room: Room) -> None:
        replica = room.replica()
        working, tries = replica.served.put, 0

        def failing(bundle: Bundle) -> None:
            nonlocal tries
            tries += 1
            if tries < 5:
                raise OSError(errno.EMFILE, "Too many open files")
            working(bundle)

        replica.served.put = failing  # type: ignore[method-assign] # the replica of this test only
        task = asyncio.create_task(replica.keep(0.001))
        async with asyncio.timeout(30):
            while not replica.served.certificate.exists():
                assert not task.done()
                await asyncio.sleep(0.001)
        task.cancel()

    run(steps)
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == ["the shared authority can't be looked after"]


def test_failures_are_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(room: Room) -> None:
        replica = room.replica()
        tries = 0
        working = room.cluster.get

        async def failing(*args: Any, **kwargs: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries < 5:
                raise Forbidden("secrets is forbidden")
            return await working(*args, **kwargs)

        room.cluster.get = failing  # type: ignore[method-assign] # the cluster of this test only
        with pytest.raises(ApiError):
            await replica.settle()
        task = asyncio.create_task(replica.keep(0.001))
        while not replica.served.certificate.exists():
            await asyncio.sleep(0.001)
        task.cancel()

    run(steps)
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert told == ["the shared authority can't be looked after"]
