"""manifests/report: what its account may do, what its pod is confined to, and that virt-dra uninstall finds all of it.

That the rights are enough, and good for nothing else, is tried on a real API server:
tests/cli/report_server/test_cluster.py.
"""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from virt_dra.api.integration.paths import PART_OF, PART_OF_LABEL
from virt_dra.cli.main import cli
from virt_dra.installation.kustomize import build
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, Overlay, packaged, planned
from virt_dra.installation.plan import KINDS as INSTALLED_KINDS
from virt_dra.model.kinds import READ
from virt_dra.report_server.viewers import resources_of

Json = dict[str, Any]
REPORT = "virt-dra-report"


def objects() -> dict[tuple[str, str], Json]:
    return {(obj["kind"], obj["metadata"]["name"]): obj for obj in build(packaged(), "report")}


def test_uninstall_finds_every_object_by_its_label_and_namespace() -> None:
    assert {obj["metadata"]["labels"][PART_OF_LABEL] for obj in objects().values()} == {PART_OF}
    assert {obj["metadata"].get("namespace", "virt-dra") for obj in objects().values()} == {"virt-dra"}
    assert {kind for kind, _ in objects()} <= INSTALLED_KINDS.keys()


@pytest.mark.parametrize("overlay", [BESIDE_KUBEVIRT, STANDALONE])
def test_it_is_no_part_of_an_installation(overlay: Overlay) -> None:
    assert not [obj for obj in planned(Choices(overlay), packaged()) if REPORT in obj["metadata"]["name"]]


def test_its_account_reads_what_the_page_shows_and_asks_for_reviews_and_nothing_else() -> None:
    rules = objects()["ClusterRole", REPORT]["rules"]
    granted = {
        (verb, group, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }
    read = {
        (verb, resource.group, resource.plural)
        for verb in ("list", "watch")
        for resource in resources_of(READ["report-server"].all)
    }
    reviews = {
        ("create", "authentication.k8s.io", "tokenreviews"),
        ("create", "authorization.k8s.io", "subjectaccessreviews"),
    }
    assert granted == read | reviews
    bound = [(kind, name) for kind, name in objects() if kind.endswith("Binding")]
    assert bound == [("ClusterRoleBinding", REPORT)]
    assert objects()["ClusterRoleBinding", REPORT]["subjects"] == [
        {"kind": "ServiceAccount", "name": REPORT, "namespace": "virt-dra"}
    ]


def test_the_role_for_viewers_is_exactly_what_they_are_asked_for() -> None:
    rules = objects()["ClusterRole", f"{REPORT}-viewer"]["rules"]
    granted = {
        (verb, group, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for name in rule["resources"]
    }
    assert granted == {
        ("list", resource.group, resource.plural) for resource in resources_of(READ["report-server"].all)
    }


def test_its_container_may_do_nothing_that_it_need_not() -> None:
    spec = objects()["Deployment", REPORT]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert not {"hostNetwork", "hostPID", "hostIPC", "priorityClassName"} & spec.keys()
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    mounted = {name for volume in spec["volumes"] for name in volume if name != "name"}
    assert mounted == {"emptyDir", "secret"}


def test_what_the_container_is_started_with_the_command_takes() -> None:
    (container,) = objects()["Deployment", REPORT]["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["args"]
    result = CliRunner().invoke(cli, [command, *arguments, "--port", "-1"])
    assert "Invalid value for '--port'" in result.output  # and for nothing else
    assert (command, arguments) == ("report-server", ["--tls-dir=/etc/report/tls"])
    assert {port["containerPort"] for port in container["ports"]} == {8443, 8080}


def test_the_service_and_the_network_policy_name_its_pods_and_ports() -> None:
    labels = objects()["Deployment", REPORT]["spec"]["template"]["metadata"]["labels"]
    service, policy = objects()["Service", REPORT]["spec"], objects()["NetworkPolicy", REPORT]["spec"]
    for selector in (service["selector"], policy["podSelector"]["matchLabels"]):
        assert selector.items() <= labels.items()
    assert [port["targetPort"] for port in service["ports"]] == [8443]
    assert [port["port"] for rule in policy["ingress"] for port in rule["ports"]] == [8443, 8080]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
