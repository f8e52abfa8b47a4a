"""Unit tests of vm.yaml on the cluster of cluster.yaml: pytest examples/testing."""

import pytest


def test_the_vm_gets_the_large_gpu(assert_vm_ready):
    (vm,) = assert_vm_ready("vm.yaml", cluster="cluster.yaml")
    assert (vm.node, vm.devices[0].pci_address) == ("node-1", "0000:41:00.0")


@pytest.mark.parametrize("release", ["1.8", "1.9"])
def test_the_vm_is_ready_with_each_release_that_we_run(assert_vm_ready, release):
    gates = {"GPUsWithDRA": True}
    assert_vm_ready("vm.yaml", cluster="cluster.yaml", kubevirt=release, gates=gates)


def test_the_small_gpu_does_not_do(assert_vm_ready):
    with pytest.raises(AssertionError, match="memory is 16Gi"):
        assert_vm_ready("vm.yaml", cluster="cluster.yaml", node="node-2")


def test_the_domain_is_as_reviewed(domain_xml, assert_domain_xml):
    assert_domain_xml(domain_xml("vm.yaml", {"gpus/gpu1": "0000:41:00.0"}), "vm.xml")
