// The reference allocator of Kubernetes as a filter: one JSON object a line in, one a line out.
//
// in  {"id", "features": {"AdminAccess": true, ...} (absent: all on), "node", "classes", "slices", "allocated": [claims], "claims"}
// out {"id", "results": [AllocationResult] or null, "error": text or null, "node_error": bool}
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type problem struct {
	ID        json.RawMessage
	Features  *structured.Features
	Node      *corev1.Node
	Classes   []*resourceapi.DeviceClass
	Slices    []*resourceapi.ResourceSlice
	Allocated []*resourceapi.ResourceClaim
	Claims    []*resourceapi.ResourceClaim
}

type answer struct {
	ID        json.RawMessage                `json:"id"`
	Results   []resourceapi.AllocationResult `json:"results"`
	Error     *string                        `json:"error"`
	NodeError bool                           `json:"node_error"`
}

type classes []*resourceapi.DeviceClass

func (c classes) List() ([]*resourceapi.DeviceClass, error) { return c, nil }

func (c classes) Get(name string) (*resourceapi.DeviceClass, error) {
	for _, class := range c {
		if class.Name == name {
			return class, nil
		}
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclass"}, name)
}

func used(claims []*resourceapi.ResourceClaim, consumable bool) structured.AllocatedState {
	state := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.AdminAccess != nil && *result.AdminAccess {
				continue
			}
			id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
			if !consumable || result.ShareID == nil {
				state.AllocatedDevices.Insert(id)
				continue
			}
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, result.ShareID))
			if result.ConsumedCapacity != nil {
				state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity))
			}
		}
	}
	return state
}

func solve(cache *cel.Cache, p problem) answer {
	features := structured.Features{}
	if p.Features != nil {
		features = *p.Features
	} else {
		features = structured.Features{
			AdminAccess: true, CompatibilityGroups: true, ConsumableCapacity: true, DerivedAttributes: true,
			DeviceBindingAndStatus: true, DeviceTaints: true, FractionalCapacityRange: true, ListTypeAttributes: true,
			OptionalNodeOperations: true, PartitionableDevices: true, PrioritizedList: true,
		}
	}
	out := answer{ID: p.ID}
	fail := func(err error) answer {
		text := err.Error()
		out.Error = &text
		out.NodeError = errors.Is(err, structured.ErrFailedAllocationOnNode)
		return out
	}
	ctx := context.Background()
	allocator, err := structured.NewAllocator(ctx, features, used(p.Allocated, features.ConsumableCapacity), classes(p.Classes), p.Slices, cache)
	if err != nil {
		return fail(err)
	}
	results, err := allocator.Allocate(ctx, p.Node, p.Claims)
	if err != nil {
		return fail(err)
	}
	out.Results = results
	return out
}

func main() {
	cache := cel.NewCache(100, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<28)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var p problem
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			text := err.Error()
			_ = out.Encode(answer{Error: &text})
			continue
		}
		if err := out.Encode(solve(cache, p)); err != nil {
			os.Exit(1)
		}
	}
}
