"""What the manifests' security contexts become in containerd, and what is refused because it could not be brought
about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from devtools.containers.restrictions import DEFAULT_CAPABILITIES, NotApplicable, Restrictions, restrictions_of
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE, Choices, packaged, planned

ROOT = Path(__file__).parents[2]
USER = "65532:65532"
Json = dict[str, Any]


def test_options_say_each_restriction() -> None:
    pod = {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "fsGroup": 1,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
    }
    security = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["NET_RAW", "KILL"]},
    }
    container = {
        "name": "c",
        "securityContext": security,
        "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}},
    }
    restrictions = restrictions_of(pod, container, USER)
    assert restrictions == Restrictions(65532, 65532, 1, True, False, ("CAP_NET_RAW", "CAP_KILL"), True, 64 << 20, 256)
    assert " ".join(restrictions.options()) == (
        "--read-only --seccomp --cap-drop CAP_NET_RAW --cap-drop CAP_KILL --memory-limit 67108864 --cpu-shares 256"
    )


def test_what_a_pod_does_not_say_is_not_restricted() -> None:
    restrictions = restrictions_of({}, {"name": "c"}, USER)
    assert restrictions == Restrictions(65532, 65532, None, False, True, (), False, None, None)
    assert restrictions.options() == ("--allow-new-privs",)


def test_every_container_of_the_manifests_can_be_started_as_it_asks() -> None:
    deployments = [obj for overlay in (BESIDE_KUBEVIRT, STANDALONE) for obj in planned(Choices(overlay), packaged())]
    extender = yaml.load(
        (ROOT / "manifests" / "extender" / "daemon_set.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader
    )
    pods = [
        obj["spec"]["template"]["spec"]
        for obj in (*deployments, extender)
        if obj["kind"] in ("Deployment", "DaemonSet")
    ]
    assert len(pods) == 7
    for pod in pods:
        for container in pod["containers"]:
            restrictions = restrictions_of(pod, container, USER)
            assert (
                restrictions.read_only,
                restrictions.new_privileges,
                restrictions.seccomp,
                restrictions.dropped,
            ) == (
                True,
                False,
                True,
                DEFAULT_CAPABILITIES,
            )


@pytest.mark.parametrize(
    ("pod", "container", "user", "error"),
    [
        ({"sysctls": []}, {}, USER, "securityContext of the pod: sysctls can't be applied here"),
        ({}, {"procMount": "Unmasked"}, USER, "securityContext of container c: procMount can't be applied here"),
        ({}, {"privileged": True}, USER, "container c is privileged, which isn't applied here"),
        ({"runAsUser": 107}, {}, USER, "runAsUser of container c is 107, and its image's USER 65532:65532"),
        ({}, {"runAsGroup": 1}, USER, "runAsGroup of container c is 1, and its image's USER 65532:65532"),
        ({"runAsNonRoot": True}, {}, "0:0", "container c has to run as no root, and its image's USER is 0"),
        ({}, {}, "nobody", "the image's USER 'nobody' names no numbers of a user and a group"),
        (
            {},
            {"seccompProfile": {"type": "Localhost"}},
            USER,
            "seccompProfile Localhost of container c can't be applied here",
        ),
        ({}, {"capabilities": {"add": ["SYS_ADMIN"]}}, USER, "capabilities.add of container c can't be applied here"),
    ],
)
def test_what_can_not_be_brought_about_is_refused(pod: Json, container: Json, user: str, error: str) -> None:
    with pytest.raises(NotApplicable) as raised:
        restrictions_of({"securityContext": pod}, {"name": "c", "securityContext": container}, user)
    assert str(raised.value) == error


def test_limits_other_than_of_memory_are_refused() -> None:
    with pytest.raises(NotApplicable, match=r"^resources\.limits of container c: cpu can't be applied here$"):
        restrictions_of({}, {"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, USER)
