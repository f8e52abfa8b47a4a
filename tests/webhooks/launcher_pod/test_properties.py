"""What holds for every launcher pod: only compute and the pod's own lists grow, whatever the order; a second look finds
nothing to do."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from devtools.webhooks.serving import launcher_pod
from tests.webhooks.launcher_pod.test_cases import knowledge_of
from virt_dra.cluster.memory.patches import patched
from webhooks.launcher_pod.mutation import mutate

VMI = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachineInstance",
    "metadata": {"name": "v", "uid": "u1"},
    "spec": {
        "domain": {
            "devices": {"gpus": [{"name": "g", "deviceName": "v.com/a"}, {"name": "h", "deviceName": "v.com/a"}]}
        }
    },
}
_labels = st.sampled_from(["a", "b", "c", "d"])
_sources = st.sampled_from([{"resourceClaimName": "mine"}, {"resourceClaimTemplateName": "t"}])
_claims = st.dictionaries(_labels, _sources, max_size=4).map(
    lambda sources: [{"name": name, **source} for name, source in sources.items()]
)
_uses = st.lists(st.fixed_dictionaries({"name": _labels}, optional={"request": _labels}), max_size=5)
_others = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["hook", "log"]), "resources": st.just({"claims": [{"name": "a"}]})}
    ),
    max_size=2,
)
_wishes = st.sampled_from([None, "auto", "native", "metadata-shim", "device-plugin"])
_device_claims = st.sampled_from(
    [
        None,
        '{"g": {"resourceClaimTemplateName": "t", "request": "x"}, "h": '
        '{"resourceClaimTemplateName": "t", "request": "y"}}',
        '{"g": {"resourceClaimTemplateName": "t", "request": "x"}, "h": '
        '{"resourceClaimTemplateName": "t", "request": "x"}}',
        '{"g": {"resourceClaimName": "one", "request": "x"}, "h": {"resourceClaimName": "two", "request": "x"}}',
    ]
)
_versions = st.sampled_from(["main", "1.9", "1.8.3", "1.8.1", "1.7", "1.5"])


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    pod = launcher_pod(())
    annotations = {
        "virt-dra.io/integration-path": draw(_wishes),
        "virt-dra.io/device-claims": draw(_device_claims),
        "metadata.virt-dra.io/x": "f",
    }
    pod["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
    pod["spec"]["resourceClaims"] = draw(_claims)
    compute = pod["spec"]["containers"][0]
    compute["resources"] = {"claims": draw(_uses), "limits": {"v.com/a": "2", "cpu": "1"}}
    pod["spec"]["containers"] = [compute, *draw(_others)]
    return pod


def _changed(pod: dict[str, Any], version: str) -> dict[str, Any]:
    before = deepcopy(pod)
    verdict = mutate(pod, "team-a", knowledge_of({"kubevirt": version, "objects": [VMI]}))
    assert verdict.allowed, verdict.causes
    assert pod == before
    changed = patched(pod, verdict.patch)
    assert isinstance(changed, dict)
    return changed


def _compute(pod: dict[str, Any]) -> dict[str, Any]:
    compute: dict[str, Any] = next(
        container for container in pod["spec"]["containers"] if container["name"] == "compute"
    )
    return compute


@given(_pods(), _versions)
def test_only_what_is_ours_is_added_and_a_second_look_adds_nothing(pod: dict[str, Any], version: str) -> None:
    changed = _changed(pod, version)
    assert _changed(changed, version) == changed
    old, new = pod["spec"], changed["spec"]
    assert [container for container in new["containers"] if container["name"] != "compute"] == [
        container for container in old["containers"] if container["name"] != "compute"
    ]
    for name in ("volumes", "resourceClaims"):
        assert new[name][: len(old[name])] == old[name]
        assert all(added["name"].startswith("virt-dra-") for added in new[name][len(old[name]) :])
    ours = {"env", "resources", "volumeMounts"}
    before, after = _compute(pod), _compute(changed)
    assert {key: value for key, value in after.items() if key not in ours} == {
        key: value for key, value in before.items() if key not in ours
    }
    assert after["resources"]["claims"][: len(before["resources"]["claims"])] == before["resources"]["claims"]
    names = [volume["name"] for volume in new["volumes"]]
    assert len(set(names)) == len(names)
    assert {mount["name"] for mount in after["volumeMounts"]} <= set(names)
    paths = [mount["mountPath"] for mount in after["volumeMounts"]]
    assert len(set(paths)) == len(paths)
    assert "metadata.virt-dra.io/x" not in changed["metadata"]["annotations"]
    if "virt-dra.io/device-claims" in pod["metadata"]["annotations"]:
        assert after["resources"]["limits"] == {"cpu": "1"}
    else:
        assert after["resources"] == before["resources"]


@given(_pods(), _versions, st.randoms(use_true_random=False))
def test_the_order_of_containers_claims_and_volumes_does_not_matter(
    pod: dict[str, Any], version: str, dice: Any
) -> None:
    shuffled = deepcopy(pod)
    for name in ("containers", "resourceClaims", "volumes"):
        dice.shuffle(shuffled["spec"][name])

    def content(changed: dict[str, Any]) -> Any:
        spec = changed["spec"]
        lists = {
            name: sorted(map(repr, spec.get(name, ()))) for name in ("resourceClaims", "volumes", "initContainers")
        }
        return changed["metadata"], lists, _compute(changed)

    assert content(_changed(shuffled, version)) == content(_changed(pod, version))
