//go:build !kubevirt_1_8

package main

import (
	v1 "kubevirt.io/api/core/v1"

	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/converter/vcpu"
)

func placeDevices(domain *api.DomainSpec, strict bool) error {
	if strict {
		return converter.PlacePCIDevicesWithNUMAAlignment(domain, converter.WithStrictPCINUMAPlacement())
	}
	return converter.PlacePCIDevicesWithNUMAAlignment(domain)
}

func adjust(domain *api.Domain, vmi *v1.VirtualMachineInstance, topology *cmdv1.Topology, cpus []int) error {
	return vcpu.AdjustDomainForTopologyAndCPUSet(domain, vmi, topology, cpus)
}
