"""The authority in its Secret, and the certificate in the one that the webhook mounts: made by the first, trusted
before it is served."""

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
from virt_dra.cluster.memory.cluster import MemoryCluster
from virt_dra.cluster.port import ApiError, Forbidden
from virt_dra.installation.webhook_authority import CONFIGURATIONS, SECRET, NotReconciled, StoredAuthority
from webhooks.tls.authority import Bundle, SystemKeys, bootstrap
from webhooks.tls.secret import encoded, files_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
VALIDATING, MUTATING = CONFIGURATIONS


class Room:
    """A cluster and replicas of the webhook in it, at a time that the test sets."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster.deterministic()
        self.now = NOW

    def keeper(self, *names: str) -> StoredAuthority:
        names = names or ("localhost",)
        return StoredAuthority(self.cluster, "authority", "tls", "virt-dra", names, "virt-dra", lambda: self.now)

    async def configure(self, *webhooks: Json) -> None:
        for kind in CONFIGURATIONS:
            raw = {
                "apiVersion": kind.API_VERSION,
                "kind": kind.KIND,
                "metadata": {"name": "virt-dra"},
                "webhooks": list(webhooks),
            }
            await self.cluster.create(UnknownObject.from_wire(raw))

    async def secret(self, name: str = "tls") -> Json:
        return (await self.cluster.get(SECRET, name, "virt-dra")).to_wire()

    async def put(self, name: str, data: Json | None, **rest: Json) -> None:
        raw = {"metadata": {"name": name, "namespace": "virt-dra"}, **rest, **({"data": data} if data else {})}
        await self.cluster.create(SECRET.from_wire(raw))

    async def bundle(self) -> Bundle:
        """Of both Secrets, which agree on whom to trust."""
        authority, serving = files_of(await self.secret("authority")), files_of(await self.secret())
        assert (set(authority), set(serving)) == ({"ca.crt", "ca.key"}, {"ca.crt", "tls.crt", "tls.key"})
        assert authority["ca.crt"] == serving["ca.crt"]
        return Bundle.from_files(authority | serving)

    async def trusted(self) -> list[bytes]:
        """The caBundle of every webhook of both configurations."""
        bundles: list[bytes] = []
        for kind in CONFIGURATIONS:
            raw = (await self.cluster.get(kind, "virt-dra")).to_wire()
            bundles += [base64.b64decode(webhook["clientConfig"].get("caBundle", "")) for webhook in raw["webhooks"]]
        return bundles

    async def served(self) -> x509.Certificate:
        """What a webhook serves by that mounts the Secret."""
        return x509.load_pem_x509_certificate(files_of(await self.secret())["tls.crt"])


async def run(test: Callable[[Room], Awaitable[None]]) -> None:
    await _awaited(test(Room()))


async def _awaited(what: Awaitable[None]) -> None:
    await what


HOOK: Json = {"name": "a.virt-dra.io", "clientConfig": {"url": "https://localhost/"}}


async def test_the_first_makes_it_and_the_others_use_it() -> None:
    async def steps(room: Room) -> None:
        await room.configure(HOOK, {**HOOK, "name": "b.virt-dra.io"})
        first, other = room.keeper(), room.keeper()
        await first.reconcile()
        made = [await room.secret(name) for name in ("authority", "tls")]
        assert [obj["type"] for obj in made] == ["Opaque", "kubernetes.io/tls"]
        assert all(obj["metadata"]["labels"] == {"app.kubernetes.io/part-of": "virt-dra"} for obj in made)
        await other.reconcile()
        assert [await room.secret(name) for name in ("authority", "tls")] == made
        assert await room.trusted() == [(await room.bundle()).ca_bundle] * 4

    await run(steps)


async def test_all_at_once_agree() -> None:
    async def steps(room: Room) -> None:
        await room.configure(HOOK)
        keepers = [room.keeper() for _ in range(5)]
        await asyncio.gather(*(keeper.reconcile() for keeper in keepers))
        settled = await room.bundle()
        for keeper in keepers:
            await keeper.reconcile()
        assert (await room.bundle()).to_files() == settled.to_files()
        assert await room.trusted() == [settled.ca_bundle] * 2

    await run(steps)


async def test_nothing_is_written_while_nothing_is_due() -> None:
    async def steps(room: Room) -> None:
        await room.configure(HOOK)
        keeper = room.keeper()
        await keeper.reconcile()
        version = room.cluster.resource_version
        room.now += timedelta(days=59)
        await keeper.reconcile()
        await room.keeper().reconcile()
        assert room.cluster.resource_version == version

    await run(steps)


async def test_renewals_through_the_years_never_leave_a_client_without_trust() -> None:
    """One looks every month, over 25 years; at no time is served what wasn't trusted a look before. Now and then
    another one does."""

    async def steps(room: Room) -> None:
        await room.configure(HOOK)
        keeper = room.keeper()
        await keeper.reconcile()
        authorities, certificates = set(), set()
        for month in range(300):
            trusted = x509.load_pem_x509_certificates((await room.trusted())[0])
            room.now += timedelta(days=30)
            keeper = room.keeper() if month % 7 == 0 else keeper
            await keeper.reconcile()
            certificate = await room.served()
            assert certificate.not_valid_before_utc <= room.now < certificate.not_valid_after_utc
            assert any(
                _signed(certificate, authority) for authority in trusted if room.now < authority.not_valid_after_utc
            )
            certificates.add(certificate)
            authorities.add((await room.bundle()).authority.certificate)
        assert len(authorities) > 3
        assert len(certificates) > 100

    await run(steps)


async def test_what_is_new_is_trusted_before_it_is_served() -> None:
    """Where the configuration can't be written the webhook keeps the certificate that it has."""

    async def steps(room: Room) -> None:
        await room.configure(HOOK)
        await room.keeper().reconcile()
        before = await room.served()
        working = room.cluster.patch

        async def failing(*args: Any, **kwargs: Any) -> Any:
            raise Forbidden("patching is forbidden")

        room.cluster.patch = failing  # type: ignore[method-assign] # the cluster of this test only
        room.now += timedelta(days=3000)  # both are due
        with pytest.raises(ApiError):
            await room.keeper().reconcile()
        assert await room.served() == before
        room.cluster.patch = working  # type: ignore[method-assign] # as above
        await room.keeper().reconcile()
        assert await room.served() != before
        assert await room.trusted() == [(await room.bundle()).ca_bundle] * 2

    await run(steps)


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:  # noqa: BLE001 - whatever it says, it isn't
        return False
    return True


@pytest.mark.parametrize("gone", [("tls",), ("authority",), ("authority", "tls")])
async def test_a_secret_that_vanished_gets_back_what_it_had(gone: tuple[str, ...]) -> None:
    async def steps(room: Room) -> None:
        keeper = room.keeper()
        await keeper.reconcile()
        before = (await room.bundle()).to_files()
        for name in gone:
            await room.cluster.delete(SECRET, name, "virt-dra")
        await keeper.reconcile()
        assert (await room.bundle()).to_files() == before

    await run(steps)


async def test_a_certificate_that_vanished_unnoticed_is_made_anew_by_the_same_authority() -> None:
    async def steps(room: Room) -> None:
        await room.keeper().reconcile()
        before = await room.bundle()
        await room.cluster.delete(SECRET, "tls", "virt-dra")
        await room.keeper().reconcile()
        after = await room.bundle()
        assert (after.trusted, after.serving.certificate == before.serving.certificate) == (before.trusted, False)

    await run(steps)


OTHER = bootstrap(("localhost",), NOW, SystemKeys())


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(None, id="empty, as the manifests make it"),
        pytest.param({"tls.crt": "eA==", "tls.key": "eA==", "ca.crt": "eA==", "other": "eA=="}, id="of cert-manager"),
        pytest.param(encoded(OTHER.serving_files()), id="of another authority"),
        pytest.param({"tls.crt": "?", "ca.key": "eA=="}, id="rubbish"),
    ],
)
async def test_a_secret_that_is_not_ours_yet_is_filled(data: Json | None) -> None:
    async def steps(room: Room) -> None:
        await room.put("tls", data, type="Opaque")  # type: ignore[arg-type] # the Secret's type
        keeper = room.keeper()
        if data is not None and "?" in data.values():
            with pytest.raises(NotReconciled, match=r"tls\.crt is not base64"):
                await keeper.reconcile()
            return
        await keeper.reconcile()
        secret = await room.secret()
        assert secret["type"] == "Opaque"
        assert secret["data"].keys() == {"tls.crt", "tls.key", "ca.crt"} | (
            {"other"} if data and "other" in data else set()
        )
        assert (await room.served()) != OTHER.serving.certificate

    await run(steps)


async def test_of_a_release_that_kept_both_in_one_secret_the_authority_is_succeeded() -> None:
    """What is served stays and stays trusted; the key that the webhook could read signs no more, and is gone."""

    async def steps(room: Room) -> None:
        await room.configure(HOOK)
        await room.put("authority", None)
        await room.put("tls", encoded(OTHER.to_files()))
        room.now += timedelta(days=20)
        await room.keeper().reconcile()
        bundle = await room.bundle()
        assert bundle.serving.certificate == OTHER.serving.certificate
        assert bundle.authority.certificate != OTHER.authority.certificate
        assert bundle.predecessors == (OTHER.authority.certificate,)
        assert await room.trusted() == [bundle.ca_bundle] * 2
        room.now += timedelta(days=41)
        await room.keeper().reconcile()
        assert _signed(await room.served(), bundle.authority.certificate)

    await run(steps)


async def test_an_authority_that_cannot_be_read_is_not_overwritten() -> None:
    async def steps(room: Room) -> None:
        data = dict.fromkeys(("ca.crt", "ca.key"), "bWluZQ==")
        await room.put("authority", data)
        with pytest.raises(NotReconciled) as caught:
            await room.keeper().reconcile()
        told = (
            "Secret virt-dra/authority: ca.crt holds no certificate in PEM; delete "
            "the Secret, or correct it; it is not overwritten"
        )
        assert str(caught.value) == told
        assert (await room.secret("authority"))["data"] == data
        await room.cluster.update(SECRET.from_wire({**await room.secret("authority"), "data": {**data, "ca.key": "?"}}))
        with pytest.raises(NotReconciled, match=r"ca\.key is not base64"):
            await room.keeper().reconcile()

    await run(steps)


async def test_other_names_are_taken_over_by_who_starts_with_them() -> None:
    """And not back again by one that still runs with the old ones."""

    async def steps(room: Room) -> None:
        old = room.keeper("old.example.com")
        await old.reconcile()
        new = room.keeper("new.example.com")
        await new.reconcile()
        after = await room.secret()
        await old.reconcile()
        assert await room.secret() == after

    await run(steps)


async def test_webhooks_that_are_added_or_emptied_are_told_again() -> None:
    async def steps(room: Room) -> None:
        keeper = room.keeper()
        await keeper.reconcile()  # there is no configuration yet
        await room.configure(HOOK)
        await keeper.reconcile()
        added = [
            *(await room.cluster.get(MUTATING, "virt-dra")).to_wire()["webhooks"],
            {**HOOK, "name": "c.virt-dra.io"},
        ]
        await room.cluster.patch(MUTATING, "virt-dra", merge={"webhooks": added})
        await keeper.reconcile()
        assert await room.trusted() == [(await room.bundle()).ca_bundle] * 3

    await run(steps)


async def test_no_descriptor_for_a_connection_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """As where something else on the machine has taken all of them."""

    async def steps(room: Room) -> None:
        keeper, tries, working = room.keeper(), 0, room.cluster.get

        async def failing(*args: Any, **kwargs: Any) -> Any:
            nonlocal tries
            tries += 1
            if tries < 5:
                raise OSError(errno.EMFILE, "Too many open files")
            return await working(*args, **kwargs)

        room.cluster.get = failing  # type: ignore[method-assign] # the cluster of this test only
        task = asyncio.create_task(keeper.keep(0.001))
        async with asyncio.timeout(30):
            while keeper._held is None:
                assert not task.done()
                await asyncio.sleep(0.001)
        task.cancel()

    await run(steps)
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert told == ["the webhook's certificate can't be renewed"]


async def test_failures_are_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(room: Room) -> None:
        keeper = room.keeper()
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
            await keeper.reconcile()
        task = asyncio.create_task(keeper.keep(0.001))
        while tries < 5 or keeper._held is None:
            await asyncio.sleep(0.001)
        task.cancel()

    await run(steps)
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert told == ["the webhook's certificate can't be renewed"]
