"""The node of the tests is a real one: its kubelet runs pods in containerd, and outlives a kubelet's death."""

from __future__ import annotations

import pytest

from devtools.real_node.here import Node

pytestmark = [pytest.mark.control_plane, pytest.mark.node]


def test_a_pod_runs_and_goes_on_while_its_kubelet_is_killed_and_started(node: Node) -> None:
    node.create_pod("plain", command=("sh", "-c", "echo started; while :; do sleep 1; done"))
    running = node.wait_for_pod("plain", "Running")
    node.stop_kubelet()
    node.start_kubelet()
    node.wait_until_ready()
    assert node.exec("plain", "echo", "still here") == "still here\n"
    assert node.container_id("plain") == running["status"]["containerStatuses"][0]["containerID"].split("//")[1]
    node.delete_pod("plain")
