// The reference allocator of Kubernetes as a filter: one JSON object a line in, one a line out, answered before the next is read.
//
// in  {"id", "features": {"AdminAccess": true, ...} (a missing one is off; without the object all are on), "node", "classes", "slices",
//
//	"allocated": [claims with status], "claims", optional "allocated_state": {"devices", "shared", "capacity"}: lists of
//	{"driver", "pool", "device", "shareID", "consumed": {name: quantity}} for states that no claims produce}
//
// out {"id", "results": [AllocationResult] or null, "error": text or null, "node_error": bool, "elapsed_us"}
//
// Share IDs come out as share-1, share-2, ... in the order in which they first appear. A problem that takes more processor time than
// -limit (not time on the wall, so that a busy machine gives the same answers) is answered with the reference's own error for a cancelled call, one that makes it panic with "panic: ...".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

var allFeatures = structured.Features{
	AdminAccess: true, CompatibilityGroups: true, ConsumableCapacity: true, DerivedAttributes: true,
	DeviceBindingAndStatus: true, DeviceTaints: true, FractionalCapacityRange: true, ListTypeAttributes: true,
	OptionalNodeOperations: true, PartitionableDevices: true, PrioritizedList: true,
}

type problem struct {
	ID             json.RawMessage
	Features       *structured.Features
	Node           *corev1.Node
	Classes        []*resourceapi.DeviceClass
	Slices         []*resourceapi.ResourceSlice
	Allocated      []*resourceapi.ResourceClaim
	AllocatedState *usedState `json:"allocated_state"`
	Claims         []*resourceapi.ResourceClaim
}

type usedState struct {
	Devices, Shared, Capacity []usedDevice
}

type usedDevice struct {
	Driver, Pool, Device string
	ShareID              *types.UID
	Consumed             map[resourceapi.QualifiedName]resource.Quantity
}

func (u usedDevice) id() structured.DeviceID {
	return structured.MakeDeviceID(u.Driver, u.Pool, u.Device)
}

type answer struct {
	ID        json.RawMessage                `json:"id"`
	Results   []resourceapi.AllocationResult `json:"results"`
	Error     *string                        `json:"error"`
	NodeError bool                           `json:"node_error"`
	ElapsedUS float64                        `json:"elapsed_us"`
}

func (a *answer) fail(text string) {
	a.Results = nil
	a.Error = &text
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

// used gathers what is allocated as the scheduler does, and what the problem adds to it.
func used(claims []*resourceapi.ResourceClaim, more *usedState, consumable bool) structured.AllocatedState {
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
	if more != nil {
		for _, device := range more.Devices {
			state.AllocatedDevices.Insert(device.id())
		}
		for _, device := range more.Shared {
			state.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(device.id(), device.ShareID))
		}
		for _, device := range more.Capacity {
			state.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(device.id(), device.Consumed))
		}
	}
	return state
}

// nameShares replaces the random share IDs.
func nameShares(results []resourceapi.AllocationResult) {
	names := map[types.UID]types.UID{}
	for i := range results {
		for j := range results[i].Devices.Results {
			id := results[i].Devices.Results[j].ShareID
			if id == nil {
				continue
			}
			if _, known := names[*id]; !known {
				names[*id] = types.UID(fmt.Sprintf("share-%d", len(names)+1))
			}
			name := names[*id]
			results[i].Devices.Results[j].ShareID = &name
		}
	}
}

// processorTime is what this process has used since it started.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// withProcessorTime is cancelled once the process has used this much more processor time.
func withProcessorTime(parent context.Context, limit time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	end := processorTime() + limit
	go func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				if processorTime() > end {
					cancel(context.DeadlineExceeded)
					return
				}
			}
		}
	}()
	return ctx, cancel
}

func solve(cache *cel.Cache, p problem, limit time.Duration) (out answer) {
	out.ID = p.ID
	start := time.Now()
	defer func() {
		if cause := recover(); cause != nil {
			out.fail(fmt.Sprintf("panic: %v", cause))
		}
		out.ElapsedUS = float64(time.Since(start)) / float64(time.Microsecond)
	}()
	if p.Node == nil {
		out.fail("no node given")
		return out
	}
	features := allFeatures
	if p.Features != nil {
		features = *p.Features
	}
	ctx, cancel := withProcessorTime(context.Background(), limit)
	defer cancel(nil)
	state := used(p.Allocated, p.AllocatedState, features.ConsumableCapacity)
	allocator, err := structured.NewAllocator(ctx, features, state, classes(p.Classes), p.Slices, cache)
	if err != nil {
		out.fail(err.Error())
		return out
	}
	results, err := allocator.Allocate(ctx, p.Node, p.Claims)
	if err != nil {
		out.fail(err.Error())
		out.NodeError = errors.Is(err, structured.ErrFailedAllocationOnNode)
		return out
	}
	nameShares(results)
	out.Results = results
	return out
}

// answerLine never fails: what can't be read is answered too, with the id if there is one.
func answerLine(cache *cel.Cache, line []byte, limit time.Duration) answer {
	var p problem
	if err := json.Unmarshal(line, &p); err != nil {
		var only struct{ ID json.RawMessage }
		_ = json.Unmarshal(line, &only) // best effort: the error is reported anyway
		out := answer{ID: only.ID}
		out.fail(err.Error())
		return out
	}
	return solve(cache, p, limit)
}

func main() {
	limit := flag.Duration("limit", 10*time.Second, "processor time for one problem")
	anyVariant := flag.Bool("any-variant", false, "use the reference's stable variant too (A-2.4), where it has all features wanted")
	flag.Parse()
	if !*anyVariant {
		structured.EnableAllocators("incubating", "experimental")
	}
	cache := cel.NewCache(1000, cel.Features{EnableConsumableCapacity: true, EnableListTypeAttributes: true})
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 1 {
			if err := out.Encode(answerLine(cache, line, *limit)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
