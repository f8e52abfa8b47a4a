"""What users get wrong with kept devices and lines of profiles, on a real control plane, with webhook, operator and
keeper as they are installed: who is refused is told why, who waits starts once it is mended, nobody else suffers. And
what Kubernetes forgets."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner

from devtools.cluster.control_plane import (
    CONTROLLERS,
    DEFAULT_CONTROLLERS,
    SCHEDULER,
    ControlPlane,
    RequestError,
    require,
)
from devtools.cluster.processes import Component
from devtools.faults.clocks import HOUR, Clock
from devtools.faults.ledger import audit_arguments
from devtools.faults.site import CLASS, IDENTITY, Site, site
from virt_dra.api.keeping.claims import KEPT_CLAIMS_ANNOTATION, STOPPED_ANNOTATION, kept_claim_name
from virt_dra.api.keeping.terms import KEEP_ANNOTATION, NODE_LOSS_ANNOTATION
from virt_dra.api.meta import parse_time
from virt_dra.api.profiles.asking import DEVICES_ANNOTATION
from virt_dra.cli.main import cli
from virt_dra.installation.plan import BESIDE_KUBEVIRT

pytestmark = pytest.mark.control_plane(seconds=8)

Json = dict[str, Any]
T = TypeVar("T")
DEVICES = 8
PATIENCE = 120.0
POLL = 0.1
KUBEVIRT = "kubevirt.io/v1"
RULES = "/apis/resource.k8s.io/v1/devicetaintrules"
PROFILES = "/apis/virt-dra.io/v1alpha1/deviceprofiles"
ONE_GPU = {"devices": [{"name": "gpu", "deviceClassName": CLASS}]}


class Users:
    """What users do at a site, and what they are shown."""

    def __init__(self, site: Site, keeper: Component, clock: Clock | None = None) -> None:
        """``clock``: of the keeper; None where it can't be set."""
        self.keeper, self.clock, self.looks = keeper, clock, 0
        self.site, self.plane, self.namespace = site, site.plane, site.namespace
        self.claims = f"/apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims"

    # --- VMs ---

    def vm(
        self, name: str, keep: str | None = "true", *, entries: tuple[str, ...] = ("gpu",), line: str | None = None,
        strategy: str = "Always", annotations: Json | None = None, claim: str = "", metadata: Json | None = None,
    ) -> Json:  # fmt: skip
        """``line``: of profiles, in place of entries with a template. ``claim``: which the entries name instead.
        ``annotations``: of its template; ``metadata``: the VM's own."""
        own = {**(annotations or {}), **({KEEP_ANNOTATION: keep} if keep is not None else {})}
        names = () if line is not None else entries
        if line is not None:
            own[DEVICES_ANNOTATION] = line
        source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": "gpu"}
        gpus = [
            {"name": f"device-{index}", "claimName": entry, "requestName": "gpu"} for index, entry in enumerate(names)
        ]
        spec = {
            "resourceClaims": [{"name": entry, **source} for entry in names],
            "domain": {"memory": {"guest": "1Gi"}, "devices": {"gpus": gpus}},
        }
        template = {"metadata": {"annotations": own}, "spec": spec}
        head = {"name": name, "annotations": metadata or {}}
        spec_of_vm = {"runStrategy": strategy, "template": template}
        body = {"apiVersion": KUBEVIRT, "kind": "VirtualMachine", "metadata": head, "spec": spec_of_vm}
        return self.plane.request("POST", self.site.path("virtualmachines"), body)

    def change(self, name: str, body: Json, plural: str = "virtualmachines") -> None:
        self.plane.merge(f"{self.site.path(plural)}/{name}", body)

    def annotate(self, name: str, annotations: Json) -> None:
        """The template of a VM."""
        self.change(name, {"spec": {"template": {"metadata": {"annotations": annotations}}}})

    def look(self, name: str) -> None:
        """Has the keeper look at a VM."""
        self.looks += 1
        self.change(name, {"metadata": {"labels": {"example.com/look": str(self.looks)}}})

    def stop(self, name: str) -> None:
        self.change(name, {"spec": {"runStrategy": "Halted"}})
        self.until(lambda: self.get("virtualmachineinstances", name) is None, f"{name} isn't stopped")

    def start(self, name: str) -> None:
        self.change(name, {"spec": {"runStrategy": "Always"}})

    def delete(self, name: str) -> None:
        """A VM, and waits until nothing of it is left."""
        self.plane.request("DELETE", f"{self.site.path('virtualmachines')}/{name}")
        self.until(lambda: not self.claims_of(name), f"claims of {name} are left")
        self.until(lambda: self.get("virtualmachineinstances", name) is None, f"the VMI of {name} is left")

    # --- what there is ---

    def get(self, plural: str, name: str) -> Json | None:
        try:
            return self.plane.request("GET", f"{self.site.path(plural)}/{name}")
        except RequestError as error:
            if error.status != 404:
                raise
            return None

    def claim(self, name: str) -> Json | None:
        try:
            return self.plane.request("GET", f"{self.claims}/{name}")
        except RequestError as error:
            if error.status != 404:
                raise
            return None

    def claims_of(self, vm: str) -> list[str]:
        items = self.plane.request("GET", self.claims)["items"]
        return [
            item["metadata"]["name"]
            for item in items
            for owner in item["metadata"].get("ownerReferences", [])
            if owner["kind"] == "VirtualMachine" and owner["name"] == vm
        ]

    def runs(self, name: str) -> Json:
        """The VMI, once its guest runs."""

        def running() -> Json | None:
            vmi = self.get("virtualmachineinstances", name)
            return vmi if vmi is not None and vmi.get("status", {}).get("phase") == "Running" else None

        return self.until(running, f"{name} doesn't run", lambda: [self.events(*about) for about in both(name)])

    def held(self, claim: str, vm: str) -> Json:
        """A claim, once its VM is one of its users."""

        def holding() -> Json | None:
            stored = self.claim(claim) or {}
            users = stored.get("status", {}).get("reservedFor", [])
            holds = any(user["resource"] == "virtualmachines" and user["name"] == vm for user in users)
            return stored if holds else None

        return self.until(holding, f"{claim} isn't held for {vm}")

    def stopped(self, claim: str) -> datetime:
        """Since when the keeper has noted that a claim's VM is stopped."""

        def noted() -> str | None:
            annotations: dict[str, str] = (self.claim(claim) or {"metadata": {}})["metadata"].get("annotations", {})
            return annotations.get(STOPPED_ANNOTATION)

        return parse_time(self.until(noted, f"nobody noted the stop of {claim}"))

    def events(self, kind: str, name: str) -> set[tuple[str, str]]:
        """Reason and message of those about an object."""
        return {
            (event["reason"], event["message"])
            for event in self.site.list("events").values()
            if (event["involvedObject"].get("kind"), event["involvedObject"].get("name")) == (kind, name)
        }

    def said(self, reason: str, text: str, *about: tuple[str, str]) -> None:
        """Waits for an Event about each of these kinds and names."""
        for kind, name in about:
            self.until(
                lambda: any(why == reason and text in message for why, message in self.events(kind, name)),  # noqa: B023 - called at once
                f"no {reason} of {kind} {name}: {text}",
                lambda: self.events(kind, name),  # noqa: B023 - called at once
            )

    def released(self, reason: str) -> float:
        """How often, by the keeper's metrics."""
        return self.keeper.metrics().get(f'virt_dra_keeper_releases_total{{reason="{reason}"}}', 0)

    def condition(self, vm: str, type_: str) -> Json:
        shown = self.get("virtualmachineinstancedevices", vm) or {}
        conditions = shown.get("status", {}).get("conditions", [])
        return next((condition for condition in conditions if condition["type"] == type_), {})

    def shown(self, vm: str, reason: str) -> Json:
        """The device of a VM whose reason in vmid is this one, once there is one."""

        def waiting() -> Json | None:
            devices = (self.get("virtualmachineinstancedevices", vm) or {}).get("status", {}).get("devices", [])
            return next((device for device in devices if device.get("reason") == reason), None)

        return self.until(
            waiting, f"vmid {vm} doesn't say {reason}", lambda: self.get("virtualmachineinstancedevices", vm)
        )

    def until(self, holds: Callable[[], T | None], otherwise: str, seen: Callable[[], object] = lambda: "") -> T:
        """The first value that is true."""
        end = time.monotonic() + PATIENCE
        while not (value := holds()):
            assert time.monotonic() < end, f"{otherwise} {seen()}"
            time.sleep(POLL)
        return value

    def refusal(self, method: str, path: str, body: Json, content: str = "application/json") -> str:
        with pytest.raises(RequestError) as refused:
            self.plane.request(method, path, body, content)
        return str(refused.value)

    @contextmanager
    def profile(self, name: str, **spec: Any) -> Iterator[str]:
        """A DeviceProfile, known to webhook and operator."""
        raw = {
            "apiVersion": "virt-dra.io/v1alpha1", "kind": "DeviceProfile",
            "metadata": {"name": name}, "spec": {**ONE_GPU, **spec},
        }  # fmt: skip
        self.plane.request("POST", PROFILES, raw)
        try:
            self.until(lambda: "there is no DeviceProfile" not in self.dry(name), f"the webhook doesn't know {name}")
            yield name
        finally:
            try:
                self.plane.request("DELETE", f"{PROFILES}/{name}")
            except RequestError as error:
                if error.status != 404:
                    raise

    def dry(self, line: str, name: str = "dry", **annotations: str) -> str:
        """Why a VMI with this line isn't admitted; "" if it is."""
        body = vmi_of({"name": name, "annotations": {DEVICES_ANNOTATION: line, **annotations}})
        try:
            self.plane.request("POST", f"{self.site.path('virtualmachineinstances')}?dryRun=All", body)
        except RequestError as error:
            return str(error)
        return ""


@pytest.fixture(scope="module")
def keeping_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    require(SCHEDULER, CONTROLLERS)
    folder = tmp_path_factory.mktemp("keeping")
    arguments, log = audit_arguments(folder)
    with ControlPlane(arguments=arguments) as plane:
        plane.start_controllers(*DEFAULT_CONTROLLERS, "resourcequota-controller")
        with site(plane, log, BESIDE_KUBEVIRT, folder, DEVICES, "--keeper") as here:
            yield here


@pytest.fixture(scope="module")
def users(keeping_site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    try:
        clock = Clock(tmp_path_factory.mktemp("clock") / "keeper")
    except pytest.skip.Exception:
        clock = None
    environment = clock.environment if clock is not None else None
    with ExitStack() as stack:
        keeper = stack.enter_context(keeping_site.keeper("--identity", IDENTITY, environment=environment)).ready()
        stack.enter_context(keeping_site.operator("--identity", IDENTITY)).ready()
        yield Users(keeping_site, keeper, clock)


def both(name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("VirtualMachine", name), ("VirtualMachineInstance", name)


# --- quota ---


def test_a_quota_that_refuses_the_claim_is_said_and_the_vm_starts_once_it_is_raised(users: Users) -> None:
    quotas = f"/api/v1/namespaces/{users.namespace}/resourcequotas"
    resource = f"{CLASS}.deviceclass.resource.k8s.io/devices"
    users.plane.request("POST", quotas, {"metadata": {"name": "gpus"}, "spec": {"hard": {resource: "0"}}})
    try:
        users.until(
            lambda: "hard" in users.plane.request("GET", f"{quotas}/gpus").get("status", {}), "the quota isn't counted"
        )
        users.vm("quota")
        users.said("WriteRefused", "exceeded quota: gpus", *both("quota"))
        assert users.shown("quota", "ClaimMissing")
        users.plane.merge(f"{quotas}/gpus", {"spec": {"hard": {resource: "1"}}})
        users.runs("quota")
    finally:
        users.plane.request("DELETE", f"{quotas}/gpus")
    users.delete("quota")


# --- profiles ---


def test_a_profile_that_is_changed_and_deleted_while_it_is_used(users: Users) -> None:
    """A VM that runs keeps what it has, and what has become of its profile is shown; it can't be started again without
    the profile, and says so."""
    with users.profile("ours") as profile:
        users.vm("drifts", line=profile)
        vmi = users.runs("drifts")
        device = users.held("drifts-ours", "drifts")["status"]["allocation"]["devices"]
        two = [{"name": "gpu", "count": 2, "deviceClassName": CLASS}]
        users.plane.merge(f"{PROFILES}/{profile}", {"spec": {"devices": two}})
        users.said("DeviceProfileChanged", "was changed since the VM was started", *both("drifts"))
        assert users.condition("drifts", "ProfilesApplied")["reason"] == "DeviceProfileChanged"
        users.plane.request("DELETE", f"{PROFILES}/{profile}")
        users.said("DeviceProfileDeleted", "can't be started again", *both("drifts"))
        assert users.runs("drifts")["metadata"]["uid"] == vmi["metadata"]["uid"]
        assert users.held("drifts-ours", "drifts")["status"]["allocation"]["devices"] == device
    users.until(lambda: "there is no DeviceProfile" in users.dry("ours"), "the webhook still knows the profile")
    users.delete("drifts")


def test_lines_that_stand_for_nothing_are_refused_with_what_helps(users: Users) -> None:
    field, meant = f"metadata.annotations[{DEVICES_ANNOTATION}]", "; did you mean one-gpu?"
    with users.profile("one-gpu"), users.profile("theirs", namespaceSelector={"matchLabels": {"team": "other"}}):
        for line, text in (
            ("one-gpus", f'{field}: Not found: "one-gpus": there is no DeviceProfile of this name{meant}'),
            ("theirs", "isn't for namespace"),
            ("one-gpu x 999999", "must ask for 1 to 32 copies"),
            ("one-gpu x 33", "must ask for 1 to 32 copies"),
            ("one-gpu x 0", "must ask for 1 to 32 copies"),
            (f"one-gpu x {'9' * 4000}", "each item is [NAME=]PROFILE[ x COPIES]"),
            (",".join(["one-gpu"] * 17), "must have at most 16 items"),
            ("one-gpu, one-gpu", "one-gpu and one-gpu both have a device gpu; give them names"),
            ("one-gpu\x00", "Invalid value"),
            ("one-gpu\x1b[2J\r\n", "Invalid value"),
            ("x" * 65536, "Too long: may not be more than 4096 bytes"),
            ("", "each item is [NAME=]PROFILE[ x COPIES]"),
        ):  # fmt: skip
            refused = users.dry(line)
            assert text in refused, (line[:40], refused[:400])
            assert len(refused) < 2000
            assert not any(ord(character) < 32 for character in refused), refused
        assert users.dry("one-gpu x 32") == ""


# --- names ---


@pytest.mark.parametrize("length", [63, 239])
def test_names_of_the_longest_vm(users: Users, length: int) -> None:
    """The kept claim's name is cut, and two VMs whose names are cut alike have claims of their own."""
    first, second = (f"{'v' * (length - 1)}{end}" for end in "ab")
    names = [kept_claim_name(vm, "gpu") for vm in (first, second)]
    assert len(set(names)) == 2
    assert {len(name) for name in names} == {63}
    for vm in (first, second):
        users.vm(vm)
    for vm, name in zip((first, second), names, strict=True):
        users.runs(vm)
        assert users.held(name, vm)
        users.delete(vm)


def test_a_vm_whose_pod_has_no_name_says_so(users: Users) -> None:
    """``virt-launcher-<vm>-`` of more than 253 characters."""
    vm = "v" * 240
    users.vm(vm)
    users.said("PodNotCreated", "metadata.generateName: Invalid value", ("VirtualMachineInstance", vm))
    users.delete(vm)


def test_a_line_of_the_longest_vm(users: Users) -> None:
    with users.profile("p" * 63) as profile:
        with pytest.raises(RequestError, match=r"must be no more than 253 characters \[profile-line\]"):
            users.vm("w" * 190, line=profile)
        vm = "w" * 189
        users.vm(vm, line=profile)
        users.runs(vm)
        assert users.held(kept_claim_name(vm, profile), vm)
        users.delete(vm)


def test_entries_of_the_longest_names(users: Users) -> None:
    entries = tuple(f"{'e' * 62}{end}" for end in "ab")
    users.vm("entries", entries=entries)
    users.runs("entries")
    claims = {users.held(kept_claim_name("entries", entry), "entries")["metadata"]["uid"] for entry in entries}
    assert len(claims) == 2
    users.delete("entries")


# --- claims that are in the way ---


def test_of_two_vms_that_would_keep_one_claim_the_second_is_refused(users: Users) -> None:
    users.vm("clash", entries=("b-c",))
    users.runs("clash")
    text = (
        'the VM keeps the devices of entry "c" in ResourceClaim "clash-b-c", which VirtualMachine "clash" keeps, too; '
        "rename the entry [kept-claim-clash]"
    )
    with pytest.raises(RequestError) as refused:
        users.vm("clash-b", entries=("c",))
    assert text in str(refused.value)
    users.delete("clash")


def test_a_vm_that_names_a_claim_that_another_keeps_is_refused(users: Users) -> None:
    users.vm("keeps")
    users.runs("keeps")
    users.held("keeps-gpu", "keeps")
    users.stop("keeps")
    with pytest.raises(RequestError) as refused:
        users.vm("names", keep=None, claim="keeps-gpu")
    whose = 'VirtualMachine "keeps" keeps the devices of ResourceClaim "keeps-gpu"'
    assert f"{whose}, and can't start while this VM has them; name another claim" in str(refused.value)
    users.delete("keeps")


def test_a_foreign_claim_of_the_name_is_left_alone_until_it_is_gone(users: Users) -> None:
    """The VMI names it, so the VM starts with it meanwhile; it isn't kept."""
    users.vm("foreign", strategy="Halted")
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}
    foreign = users.plane.request("POST", users.claims, {"metadata": {"name": "foreign-gpu"}, "spec": spec})
    users.start("foreign")
    users.said("KeptClaimNameTaken", "isn't the VM's: delete it, or rename entry gpu", *both("foreign"))
    users.runs("foreign")
    left = users.claim("foreign-gpu") or {}
    assert (left["metadata"]["uid"], left["metadata"].get("ownerReferences")) == (foreign["metadata"]["uid"], None)
    assert [user["resource"] for user in left["status"]["reservedFor"]] == ["pods"]
    users.plane.request("DELETE", f"{users.claims}/foreign-gpu")
    users.stop("foreign")
    users.until(lambda: users.claim("foreign-gpu") is None, "the foreign claim is still there")
    users.start("foreign")
    users.runs("foreign")
    users.held("foreign-gpu", "foreign")
    users.delete("foreign")


def test_a_claim_that_is_being_deleted_is_made_again_once_it_is_gone(users: Users) -> None:
    owner = users.vm("again", strategy="Halted")
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}}
    metadata = {
        "name": "again-gpu", "finalizers": ["example.com/slow"], "labels": {"virt-dra.io/kept": "true"},
        "ownerReferences": [owner_of(owner)],
    }  # fmt: skip
    old = users.plane.request("POST", users.claims, {"metadata": metadata, "spec": spec})
    users.plane.request("DELETE", f"{users.claims}/again-gpu")
    users.start("again")
    users.said("KeptClaimTerminating", "is still being deleted", *both("again"))
    users.plane.merge(f"{users.claims}/again-gpu", {"metadata": {"finalizers": None}})
    users.runs("again")
    assert users.held("again-gpu", "again")["metadata"]["uid"] != old["metadata"]["uid"]
    users.delete("again")


# --- terms ---


BAD_TERMS = ("0h", "1e9h", "-1h", "24 h", "999999999d", "24H", "yes", "", "24h\x00", "\x1b[2J", "x" * 65536)


def test_terms_that_mean_nothing_are_refused_at_the_start(users: Users) -> None:
    owner = owner_of(users.vm("terms", strategy="Halted"))
    for annotation in (KEEP_ANNOTATION, NODE_LOSS_ANNOTATION):
        for value in BAD_TERMS:
            metadata = {
                "name": "terms",
                "annotations": {KEEP_ANNOTATION: "24h30m", annotation: value},
                "ownerReferences": [owner],
            }
            body = vmi_of(metadata)
            refused = users.refusal("POST", f"{users.site.path('virtualmachineinstances')}?dryRun=All", body)
            assert f"metadata.annotations[{annotation}]: Invalid value: " in refused
            assert len(refused) < 1000
            assert not any(ord(character) < 32 for character in refused), refused
    users.delete("terms")


def test_terms_that_come_to_mean_nothing_keep_what_the_vm_has(users: Users) -> None:
    users.vm("mended", "24h30m")
    users.runs("mended")
    users.held("mended-gpu", "mended")
    users.stop("mended")
    users.stopped("mended-gpu")
    for value in BAD_TERMS:
        with pytest.raises(RequestError, match=r"between 1s and 3650d.* \[integration-annotation\]"):
            users.annotate("mended", {KEEP_ANNOTATION: value})
    for value in BAD_TERMS:
        users.change("mended", {
            "metadata": {"annotations": {KEEP_ANNOTATION: value}},
            "spec": {"template": {"metadata": {"annotations": {KEEP_ANNOTATION: None}}}},
        })  # fmt: skip
        users.said(
            "InvalidKeeping",
            json.dumps(value) if len(value) < 60 else json.dumps(value[:60])[:-1],
            ("VirtualMachine", "mended"),
        )
        assert all(len(message) <= 1024 for _, message in users.events("VirtualMachine", "mended"))
    users.held("mended-gpu", "mended")
    users.annotate("mended", {KEEP_ANNOTATION: "1s"})
    users.said("KeptDevicesReleased", "the VM has been stopped for", ("VirtualMachine", "mended"))
    users.delete("mended")


def test_records_that_nobody_could_have_written_keep_nothing(users: Users) -> None:
    """``kept-claims`` of a user: the webhook writes its own, or refuses the VMI; what it says the keeper reads only of
    entries that name kept claims."""
    deep = "[" * 5000 + "]" * 5000
    for index, text in enumerate(("{", deep, '{"gpu":1}', "x" * 65536, '{"gpu":"other"}')):
        name = f"record-{index}"
        users.vm(name, annotations={KEPT_CLAIMS_ANNOTATION: text})
        users.runs(name)
        vmi = users.get("virtualmachineinstances", name) or {}
        assert json.loads(vmi["metadata"]["annotations"][KEPT_CLAIMS_ANNOTATION]) == {"gpu": "gpu"}
        users.delete(name)


# --- on and off ---


def test_keeping_that_is_turned_on_and_off_while_the_vm_runs(users: Users) -> None:
    users.vm("switched", keep=None)
    users.runs("switched")
    assert users.claims_of("switched") == []
    users.annotate("switched", {KEEP_ANNOTATION: "true"})
    users.said(
        "KeepingStartsLater", "the devices of gpu are kept from the VM's next start on", ("VirtualMachine", "switched")
    )
    assert users.claims_of("switched") == []
    users.stop("switched")
    users.start("switched")
    users.runs("switched")
    users.held("switched-gpu", "switched")
    users.annotate("switched", {KEEP_ANNOTATION: None})
    users.said("KeepingEndsLater", "is released when the VM stops", ("VirtualMachine", "switched"))
    users.runs("switched")
    assert users.claims_of("switched") == ["switched-gpu"]
    users.stop("switched")
    users.until(lambda: users.claims_of("switched") == [], "the claim isn't released")
    users.said("KeptDevicesReleased", "no longer asks to keep", ("VirtualMachine", "switched"))
    users.delete("switched")


# --- releases ---


def test_a_release_of_a_vm_that_runs_has_nothing_or_is_not_there(users: Users) -> None:
    def release(name: str) -> tuple[int, str]:
        arguments = ["release", "vm", name, "--yes", "-n", users.namespace, "--kubeconfig", str(users.plane.kubeconfig)]
        result = CliRunner().invoke(cli, arguments)
        return result.exit_code, result.output

    users.vm("released")
    users.runs("released")
    users.held("released-gpu", "released")
    code, output = release("released")
    assert code == 1
    assert "error: the VM runs, or its pod hasn't ended: stop it first" in output
    assert "virt-dra.io/release-requested" not in (users.claim("released-gpu") or {})["metadata"].get("annotations", {})
    users.stop("released")
    users.stopped("released-gpu")
    assert release("released")[0] == 0
    users.said("KeptDevicesReleased", "its release was asked for", ("VirtualMachine", "released"))
    users.until(lambda: "allocation" not in (users.claim("released-gpu") or {}).get("status", {}), "it isn't released")
    nothing = (0, f"VM {users.namespace}/released keeps no devices\n")
    assert release("released") == nothing
    assert release("never-made") == (0, f"VM {users.namespace}/never-made keeps no devices\n")
    users.delete("released")


def test_a_node_that_is_cordoned_for_longer_than_the_vm_waits_and_a_tainted_device(users: Users) -> None:
    node = f"/api/v1/nodes/node-{users.namespace}"
    users.vm("waits", annotations={NODE_LOSS_ANNOTATION: "3s"})
    users.vm("stays", annotations={NODE_LOSS_ANNOTATION: "never"})
    for name in ("waits", "stays"):
        users.runs(name)
        users.held(f"{name}-gpu", name)
        users.stop(name)
        users.stopped(f"{name}-gpu")
    try:
        users.plane.merge(node, {"spec": {"unschedulable": True}})
        users.said("KeptDevicesReleased", "has been cordoned for", ("VirtualMachine", "waits"))
    finally:
        users.plane.merge(node, {"spec": {"unschedulable": False}})
    assert users.released("KeptNodeLost") == 1
    results = users.held("stays-gpu", "stays")["status"]["allocation"]["devices"]["results"]
    device = {key: results[0][key] for key in ("driver", "pool", "device")}
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    rule = {"metadata": {"name": "broken"}, "spec": {"deviceSelector": device, "taint": taint}}
    users.plane.request("POST", RULES, rule)
    try:
        users.said("KeptDevicesReleased", "a device has a NoExecute taint: ", ("VirtualMachine", "stays"))
        assert users.released("KeptDeviceTainted") == 1
        users.start("stays")
        users.runs("stays")
        assert users.held("stays-gpu", "stays")["status"]["allocation"]["devices"]["results"] != results
    finally:
        users.plane.request("DELETE", f"{RULES}/broken")
    for name in ("waits", "stays"):
        users.delete(name)


# --- clocks ---


def test_a_keeper_whose_clock_is_wrong_goes_by_the_clusters_time(users: Users) -> None:
    clock = users.clock
    if clock is None:
        pytest.skip("no libfaketime: apt-get install faketime")
    try:
        for index, ahead in enumerate((HOUR, -HOUR)):
            name = f"timed-{index}"
            users.vm(name, "30m")
            users.runs(name)
            users.held(f"{name}-gpu", name)
            clock.set(ahead)
            users.stop(name)
            stopped = users.stopped(f"{name}-gpu")
            assert abs(stopped - datetime.now(UTC)) < timedelta(minutes=10)
            for hours in (-1, 1, 0):
                clock.set(hours * HOUR)
                users.look(name)
                time.sleep(1)
                assert users.stopped(f"{name}-gpu") == stopped
            users.held(f"{name}-gpu", name)
            users.delete(name)
    finally:
        clock.set(0)


# --- what Kubernetes forgets; at the end, as it starts the API server anew ---


def test_a_vm_starts_though_the_garbage_collector_has_forgotten_an_earlier_one(users: Users) -> None:
    """It learns of neither the end nor the beginning, but of a VM whose UID has changed (P-15)."""
    with ExitStack() as stack:
        profile = stack.enter_context(users.profile("again"))
        users.vm("kept")
        users.vm("asks", None, line=profile)
        earlier = {name: users.runs(name)["metadata"]["uid"] for name in ("kept", "asks")}
        claim = users.held("kept-gpu", "kept")["metadata"]["uid"]
        with users.plane.paused(CONTROLLERS):
            users.plane.restart_api_server()  # else it had been told before it looks again
            for name in earlier:
                users.plane.request("DELETE", f"{users.site.path('virtualmachines')}/{name}")
            for name in earlier:
                users.until(lambda: users.get("virtualmachines", name) is None, f"{name} is left")  # noqa: B023 - called at once
            users.vm("kept")
            users.vm("asks", None, line=profile)
            for name in earlier:
                users.until(lambda: users.get("virtualmachineinstances", name), f"{name} has no VMI")  # noqa: B023 - called at once
            users.plane.restart_api_server()
        # Whoever couldn't renew a Lease meanwhile has ended.
        stack.enter_context(users.site.keeper("--identity", "next-keeper"))
        stack.enter_context(users.site.operator("--identity", "next-operator"))
        for name, uid in earlier.items():
            assert users.runs(name)["metadata"]["uid"] != uid
        users.until(
            lambda: users.condition("asks", "ProfilesApplied").get("status") == "True", "a template is in the way"
        )
        if (users.claim("kept-gpu") or {"metadata": {"uid": ""}})["metadata"]["uid"] == claim:
            users.stop("kept")  # started with what was left behind
            users.start("kept")
        users.until(lambda: users.held("kept-gpu", "kept")["metadata"]["uid"] != claim, "the claim is left behind")
        users.delete("kept")
        users.delete("asks")


def vmi_of(metadata: Json, gpus: Sequence[Json] = (), **spec: Any) -> Json:
    domain = {"devices": {"gpus": list(gpus)}, "memory": {"guest": "1Gi"}}
    return {
        "apiVersion": KUBEVIRT, "kind": "VirtualMachineInstance",
        "metadata": metadata, "spec": {"domain": domain, **spec},
    }  # fmt: skip


def owner_of(vm: Json) -> Json:
    return {
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "name": vm["metadata"]["name"],
        "uid": vm["metadata"]["uid"], "controller": True,
    }  # fmt: skip
