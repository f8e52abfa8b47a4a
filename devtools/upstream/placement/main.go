// Answers questions about NUMA as KubeVirt's launcher does: where it places PCI devices, and how it pins vCPUs. One JSON
// object per line, in and out; see record.py beside this file, which builds the program inside KubeVirt's own sources.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	v1 "kubevirt.io/api/core/v1"

	cmdv1 "kubevirt.io/kubevirt/pkg/handler-launcher-com/cmd/v1"
	"kubevirt.io/kubevirt/pkg/util/hardware"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
)

type question struct {
	// of placement: the host's CPUs by NUMA node and functions by address, the guest's cells and bindings
	Nodes       map[string]string    `json:"nodes"`
	Functions   map[string]int       `json:"functions"`
	Cells       []api.NUMACell       `json:"cells"`
	MemNodes    []api.MemNode        `json:"memnodes"`
	Pins        []api.CPUTuneVCPUPin `json:"pins"`
	Controllers []api.Controller     `json:"controllers"`
	Devices     []struct {
		Source []string `json:"source"`
		Guest  bool     `json:"guest"`
	} `json:"devices"`
	Strict bool `json:"strict"`

	// of pinning
	Topology    []*cmdv1.Cell `json:"topology"`
	CPUs        []int         `json:"cpus"`
	Shape       []uint32      `json:"shape"`
	Passthrough bool          `json:"passthrough"`
	Isolated    bool          `json:"isolated"`
	Memory      string        `json:"memory"`
	PageSize    string        `json:"pageSize"`
	Even        bool          `json:"even"`
}

func place(q question, folder string) any {
	hardware.PciBasePath = filepath.Join(folder, "sys/bus/pci/devices")
	hardware.NodeBasePath = filepath.Join(folder, "sys/bus/node/devices")
	for node, cpus := range q.Nodes {
		write(filepath.Join(hardware.NodeBasePath, "node"+node, "cpulist"), cpus)
	}
	for function, node := range q.Functions {
		write(filepath.Join(hardware.PciBasePath, function, "numa_node"), fmt.Sprint(node))
	}
	domain := api.DomainSpec{}
	if q.Cells != nil {
		domain.CPU.NUMA = &api.NUMA{Cells: q.Cells}
	}
	if q.MemNodes != nil {
		domain.NUMATune = &api.NUMATune{MemNodes: q.MemNodes}
	}
	domain.CPUTune = &api.CPUTune{VCPUPin: q.Pins}
	domain.Devices.Controllers = q.Controllers
	for _, device := range q.Devices {
		s := device.Source
		hostdev := api.HostDevice{Type: api.HostDevicePCI, Source: api.HostDeviceSource{
			Address: &api.Address{Type: "pci", Domain: "0x" + s[0], Bus: "0x" + s[1], Slot: "0x" + s[2], Function: "0x" + s[3]}}}
		if device.Guest {
			hostdev.Address = &api.Address{Type: "pci", Domain: "0x0000", Bus: "0x00", Slot: "0x0a", Function: "0x0"}
		}
		domain.Devices.HostDevices = append(domain.Devices.HostDevices, hostdev)
	}
	if err := placeDevices(&domain, q.Strict); err != nil {
		return map[string]any{"error": strings.ReplaceAll(err.Error(), folder, "")}
	}
	controllers := []any{}
	for _, c := range domain.Devices.Controllers[len(q.Controllers):] {
		if c.Address != nil {
			controllers = append(controllers, map[string]any{"index": c.Index, "model": c.Model, "address": address(c.Address)})
		} else {
			controllers = append(controllers, map[string]any{"index": c.Index, "model": c.Model, "busNr": c.Target.BusNr, "node": c.Target.NUMANode})
		}
	}
	addresses := []any{}
	for _, device := range domain.Devices.HostDevices {
		addresses = append(addresses, address(device.Address))
	}
	return map[string]any{"controllers": controllers, "addresses": addresses}
}

func address(a *api.Address) any {
	if a == nil {
		return nil
	}
	return fmt.Sprintf("%s %s %s %s %s", a.Type, a.Domain, a.Bus, a.Slot, a.Function)
}

func pin(q question) any {
	vmi := &v1.VirtualMachineInstance{}
	vmi.Annotations = map[string]string{}
	if q.Even {
		vmi.Annotations[v1.EmulatorThreadCompleteToEvenParity] = ""
	}
	vmi.Spec.Domain.CPU = &v1.CPU{Sockets: q.Shape[0], Cores: q.Shape[1], Threads: q.Shape[2],
		DedicatedCPUPlacement: true, IsolateEmulatorThread: q.Isolated}
	if q.Passthrough {
		vmi.Spec.Domain.CPU.NUMA = &v1.NUMA{GuestMappingPassthrough: &v1.NUMAGuestMappingPassthrough{}}
	}
	guest := resource.MustParse(q.Memory)
	vmi.Spec.Domain.Memory = &v1.Memory{Guest: &guest}
	domain := &api.Domain{}
	domain.Spec.CPU.Topology = &api.CPUTopology{Sockets: q.Shape[0], Cores: q.Shape[1], Threads: q.Shape[2]}
	domain.Spec.MemoryBacking = &api.MemoryBacking{}
	if q.PageSize != "" {
		vmi.Spec.Domain.Memory.Hugepages = &v1.Hugepages{PageSize: q.PageSize}
		domain.Spec.MemoryBacking.HugePages = &api.HugePages{}
	}
	if err := adjust(domain, vmi, &cmdv1.Topology{NumaCells: q.Topology}, q.CPUs); err != nil {
		return map[string]any{"error": err.Error()}
	}
	answer := map[string]any{"pins": domain.Spec.CPUTune.VCPUPin, "numaTune": domain.Spec.NUMATune}
	if domain.Spec.CPUTune.EmulatorPin != nil {
		answer["emulator"] = domain.Spec.CPUTune.EmulatorPin.CPUSet
	}
	if domain.Spec.CPU.NUMA != nil {
		answer["cells"] = domain.Spec.CPU.NUMA.Cells
	}
	if domain.Spec.MemoryBacking.HugePages != nil {
		answer["pages"] = domain.Spec.MemoryBacking.HugePages.HugePage
	}
	return answer
}

func write(path, text string) {
	check(os.MkdirAll(filepath.Dir(path), 0o755))
	check(os.WriteFile(path, []byte(text+"\n"), 0o644))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		q := question{}
		check(json.Unmarshal(lines.Bytes(), &q))
		if q.Shape != nil {
			check(out.Encode(pin(q)))
			continue
		}
		folder, err := os.MkdirTemp("", "sysfs")
		check(err)
		check(out.Encode(place(q, folder)))
		check(os.RemoveAll(folder))
	}
}
