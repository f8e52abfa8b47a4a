"""What doctor makes of facts: cases in cases/doctor.yaml, each a difference from a cluster on which all is well."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from click.testing import CliRunner

from virt_dra.api.integration.check_findings import CheckFinding, exit_code
from virt_dra.api.kubevirt_versions import KubeVirtVersion
from virt_dra.api.meta import parse_time
from virt_dra.cli.main import cli
from virt_dra.cli.shared.check_report import report
from virt_dra.doctor.checks import examine
from virt_dra.doctor.facts import Certificate, ClusterFacts, Permission, Unknown
from virt_dra.doctor.gather import asks_to_keep, gather

Json = dict[str, Any]
VERSION = "0.1.0"
NOW = datetime(2026, 5, 1, tzinfo=UTC)
GATES = ["GPUsWithDRA", "HostDevicesWithDRA", "HostDevices"]
CASES = yaml.load((Path(__file__).parent / "cases" / "doctor.yaml").read_text(), yaml.CSafeLoader)


def kubevirt(
    name: str,
    version: object = None,
    gates: list[str] | None = None,
    permitted: bool = False,
    disabled: list[str] | None = None,
) -> Json:
    configuration: Json = {
        "developerConfiguration": {"featureGates": gates or [], "disabledFeatureGates": disabled or []}
    }
    if permitted:
        configuration["permittedHostDevices"] = {}
    status = {} if version is None else {"observedKubeVirtVersion": version}
    return {
        "metadata": {"name": name, "namespace": "kubevirt"},
        "spec": {"configuration": configuration},
        "status": status,
    }


def resource_slice(name: str, driver: object, count: int = 1, attributes: Json | None = None) -> Json:
    address = {"resource.kubernetes.io/pciBusID": {"string": "0000:01:00.0"}}
    devices = [{"name": f"d{i}", "attributes": address if attributes is None else attributes} for i in range(2)]
    pool = {"name": "node", "generation": 1, "resourceSliceCount": count}
    return {
        "metadata": {"name": name},
        "spec": {"driver": driver, "nodeName": "node", "pool": pool, "devices": devices},
    }


def device_class(name: str, selector: str = "device.driver == 'gpu.example.com'", writers: str = "") -> Json:
    metadata: Json = {"name": name}
    if writers:
        metadata["annotations"] = {"virt-dra.io/writes-metadata": writers}
    return {"metadata": metadata, "spec": {"selectors": [{"cel": {"expression": selector}}]}}


def deployment(name: str, mode: str, version: str, available: int, callers: list[str]) -> Json:
    args = [f"--mode={mode}"] if name.endswith("operator") else callers
    container = {
        "args": args,
        "ports": [{"name": "reviews", "containerPort": 8443}, {"name": "plain", "containerPort": 8080}],
    }
    metadata = {
        "name": name,
        "namespace": "virt-dra",
        "generation": 1,
        "labels": {"app.kubernetes.io/version": version},
    }
    status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": available}
    return {
        "metadata": metadata,
        "spec": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
        "status": status,
    }


def definition(name: str, established: bool) -> Json:
    word = "True" if established else "False"
    condition = {"type": "Established", "status": word, "message": f"the name {name.partition('.')[0]} is taken"}
    return {"metadata": {"name": name}, "status": {"conditions": [condition]}}


def facts(
    mode: str = "beside-kubevirt", *, installed_version: str = VERSION, available: int = 2, established: bool = True,
    kubevirts: list[Json] | None = None, slices: list[Json] | None = None, classes: list[Json] | None = None,
    ca_bundle: str = "Y2E=", trusted: bool = True, expires: str = "2026-07-01T00:00:00Z",
    dns_names: tuple[str, ...] = (), refused: list[list[str]] | None = None, pod_waiting: Json | None = None,
    api_versions: list[str] | None = None, callers: list[str] | None = None, reviews_from: list[Json] | None = None,
    policy: Json | None = None, keeper: bool = False, **given: Any,
) -> ClusterFacts:  # fmt: skip
    """A cluster on which all is well but for what is given."""
    webhook = {"name": "vmi.virt-dra.io", "clientConfig": {"caBundle": ca_bundle}}
    configuration = {"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "virt-dra"}, "webhooks": [webhook]}
    trusting = ("ValidatingWebhookConfiguration virt-dra",) if trusted else ()
    names = ("virt-dra-operator", "virt-dra-webhook", *(("virt-dra-keeper",) if keeper else ()))
    waiting = [{"name": "operator", "state": {"waiting": pod_waiting}}]
    pods = [
        {"metadata": {"name": "virt-dra-operator-1", "namespace": "virt-dra"}, "status": {"containerStatuses": waiting}}
    ]
    networks = [{"ipBlock": {"cidr": "10.0.0.1/32"}}] if reviews_from is None else reviews_from
    well: Json = {
        "now": NOW,
        "version": "v1.37.1",
        "api_versions": frozenset(api_versions or ["v1", "resource.k8s.io/v1"]),
        "features": {"DynamicResourceAllocation": True, "Other": False},
        "crds": {"kubevirts.kubevirt.io": definition("kubevirts.kubevirt.io", established)},
        "kubevirts": [kubevirt("kubevirt", "v1.9.0", GATES)]
        if kubevirts is None
        else [kubevirt(**spec) for spec in kubevirts],
        "slices": [
            resource_slice(**slice_)
            for slice_ in ([{"name": "s", "driver": "gpu.example.com"}] if slices is None else slices)
        ],
        "classes": [device_class(**spec) for spec in ([{"name": "gpu"}] if classes is None else classes)],
        "deployments": [
            deployment(
                name,
                mode,
                installed_version,
                available if name == names[0] else 2,
                ["--client-ca=x"] if callers is None else callers,
            )
            for name in names
            if mode != "none"
        ],
        "pods": pods if pod_waiting else (),
        "configurations": (configuration,),
        "ready_endpoints": 2,
        "certificate": Certificate(
            parse_time(expires), tuple(dns_names) or ("virt-dra-webhook.virt-dra.svc",), trusting
        ),
        "network_policy": {
            "spec": policy or {"ingress": [{"ports": [{"port": 8443}], "from": networks}, {"ports": [{"port": 8080}]}]}
        },
        "lease": {"holderIdentity": "one", "renewTime": "2026-04-30T23:59:55.000000Z", "leaseDurationSeconds": 15},
        "permissions": [
            Permission("virt-dra-operator", "list", "pods", True),
            *(Permission(account, verb, resource, False) for account, verb, resource in refused or ()),
        ],
        "missing": (),
        "probe": 'admission webhook "vmi.virt-dra.io" denied the request: metadata.annotations',
    }
    if "lease" in given and given["lease"] is not None:
        given["lease"] = {"spec": given["lease"]}
    else:
        well["lease"] = {"spec": well["lease"]}
    return ClusterFacts(**{**well, **given})


def test_where_all_is_well_nothing_needs_doing() -> None:
    findings = examine(facts(), VERSION)
    assert [finding for finding in findings if finding.level != "ok"] == []
    assert exit_code(findings) == 0
    assert [finding.id for finding in findings] == [
        *("kubernetes", "feature-gates", "kubevirt-version", "drivers", "classes", "installation", "definitions"),
        *("workloads", "workloads", "webhook-answer", "callers", "certificate", "rights", "leader"),
    ]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({}, "isn't known to write metadata (metadata-shim)"),
        ({"classes": [{"name": "gpu", "writers": "gpu.example.com"}]}, "writes metadata (path native)"),
    ],
)
def test_it_says_of_each_driver_whether_it_writes_metadata(given: Json, path: str) -> None:
    (driver,) = (finding for finding in examine(facts(**given), VERSION) if finding.id == "drivers")
    assert (driver.level, driver.message) == ("ok", f"2 devices in 1 pool; {path}")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_what_is_wrong_is_found_and_nothing_else(case: Json) -> None:
    named = KubeVirtVersion.parse(str(case["kubevirt"])) if "kubevirt" in case else None
    found = [
        finding for finding in examine(facts(**case["facts"]), VERSION, named) if finding.level in ("warning", "error")
    ]
    infos = [finding for finding in examine(facts(**case["facts"]), VERSION, named) if finding.level == "info"]
    if any(level == "info" for _, level, _, _ in case["findings"]):
        found += infos
    got = sorted([finding.id, finding.level, finding.where, finding.message] for finding in found)
    wanted = sorted(case["findings"])
    # A message that ends with ": " or lacks its end goes on with what somebody else says.
    shown = [
        [*have[:3], want[3] if have[3].startswith(want[3]) else have[3]]
        for have, want in zip(got, wanted, strict=False)
    ]
    assert [*shown, *got[len(shown) :]] == wanted
    assert all(finding.advice for finding in found)
    assert [finding.advice for finding in found] == case.get("advice", [finding.advice for finding in found])


@pytest.mark.parametrize("name", [field.name for field in fields(ClusterFacts) if "Unknown" in str(field.type)])
def test_what_could_not_be_read_is_told_and_breaks_nothing(name: str) -> None:
    findings = examine(replace(facts(), **{name: Unknown("no right")}), VERSION)  # type: ignore[arg-type] # one of the fields that may be Unknown
    if name not in (
        "pods",
        "extender_answers",
    ):  # which only add to what Deployments, and DaemonSets that are there, say
        assert any("no right" in finding.message for finding in findings)
    assert all(finding.level != "error" for finding in findings)


class SilentCluster:
    """Has a Deployment, and answers nothing else."""

    async def list_raw(self, api_version: str, kind: str, *scope: str, **options: str) -> Any:
        if kind == "Deployment":
            return [deployment("virt-dra-operator", "beside-kubevirt", VERSION, 1, [])]
        return await asyncio.sleep(60)

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        async def silent(*arguments: object, **options: object) -> Any:
            await asyncio.sleep(60)

        return silent


async def test_a_server_that_does_not_answer_in_time_ends_the_reading() -> None:
    async with asyncio.timeout(20):
        read = await gather(cast("Any", SilentCluster()), "default", seconds=0.2)
    slow = "the API server, or a proxy on the way, answers slowly: see its load, and run doctor again"
    unread = Unknown("not read within 0.2 s, in which doctor reads everything", slow)
    assert {field.name for field in fields(read) if getattr(read, field.name) != unread} == {
        "now", "deployments", "nodes", "launcher_policy"
    }  # fmt: skip
    assert exit_code(examine(read, VERSION)) == 2


def test_nothing_can_be_read() -> None:
    names = [field.name for field in fields(ClusterFacts) if "Unknown" in str(field.type)]
    findings = examine(replace(facts(), **dict.fromkeys(names, Unknown("no right"))), VERSION)  # type: ignore[arg-type] # as above
    assert exit_code(findings) == 1


def test_the_exit_code_tells_the_worst() -> None:
    def finding(level: Any) -> CheckFinding:
        return CheckFinding("x", level, "y", "z")

    assert [exit_code([finding("ok"), finding(level)]) for level in ("info", "warning", "error")] == [0, 1, 2]


def test_text_has_a_line_for_the_finding_and_one_for_the_advice() -> None:
    assert report([CheckFinding("x", "error", "where", "what", "do it"), CheckFinding("x", "ok", "there", "well")]) == [
        "\x1b[31merror   \x1b[0m where: what",
        "         -> do it",
        "\x1b[32mok      \x1b[0m there: well",
    ]


def test_help_has_examples_and_exit_codes() -> None:
    text = CliRunner().invoke(cli, ["doctor", "--help"]).stdout
    assert "Examples:" in text
    assert "Exit codes: 0 neither warnings nor errors, 1 warnings, 2 errors" in text


def test_without_a_cluster_it_says_so(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["doctor", "--kubeconfig", str(tmp_path / "none"), "-o", "json"])
    assert result.exit_code == 2
    assert "none" in yaml.safe_load(result.stdout)["error"]


@pytest.mark.parametrize(
    ("template", "own", "beside_kubevirt", "standalone"),
    [
        ({}, {}, False, False),
        (None, None, False, False),
        ({"virt-dra.io/keep-devices": "24h"}, {}, True, True),
        ({"virt-dra.io/keep-devices": "false"}, {"virt-dra.io/keep-devices": "true"}, False, False),
        ({}, {"virt-dra.io/keep-devices": "true"}, False, True),
    ],
)
def test_which_vms_ask_to_keep_their_devices(
    template: Json | None, own: Json | None, beside_kubevirt: bool, standalone: bool
) -> None:
    vm = {"metadata": {"annotations": own}, "spec": {"template": {"metadata": {"annotations": template}}}}
    assert (asks_to_keep(vm, False), asks_to_keep(vm, True)) == (beside_kubevirt, standalone)


def test_nobody_misses_a_keeper_that_is_there_or_isnt_read_about() -> None:
    def said(**given: Any) -> list[str]:
        return [finding.message for finding in examine(facts(**given), VERSION) if finding.id == "keeper"]

    here = facts()
    keeper = deployment("virt-dra-keeper", "", VERSION, 2, [])
    assert said(keeping_vms=["lab/a"], deployments=[*cast("Any", here.deployments), keeper]) == []
    assert said(keeping_vms=Unknown("forbidden")) == ["whether VMs ask to keep their devices can't be read: forbidden"]
