"""The real cluster with virt-dra on it, which tests of the manifests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devtools.cluster.control_plane import ControlPlane, require
from devtools.deployed.audit_policy import POLICY
from tests.manifests.live_cluster import Cluster, install, live
from virt_dra.api.reading.yaml_writing import write_yaml
from virt_dra.installation.plan import BESIDE_KUBEVIRT, STANDALONE


@pytest.fixture(scope="package", params=[BESIDE_KUBEVIRT, STANDALONE])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    require("kube-scheduler", "kube-controller-manager")
    folder = tmp_path_factory.mktemp("audit")
    (folder / "policy.yaml").write_text(write_yaml(POLICY))
    audit = folder / "audit.log"
    # As most clusters have it: else no thief could try a privileged pod.
    arguments = (
        "--allow-privileged",
        "--audit-policy-file",
        str(folder / "policy.yaml"),
        "--audit-log-path",
        str(audit),
        "--audit-log-mode",
        "blocking-strict",
    )
    with ControlPlane(arguments=arguments) as plane:
        plane.start_scheduler()
        plane.start_controllers()
        started = Cluster(plane, request.param, audit)
        try:
            install(started)
            live(started)
            started.lived = audit.stat().st_size
            yield started
        except AssertionError as error:
            raise AssertionError(f"{error}\n{started.said()}") from None
        finally:
            started.stop()
