// The reference allocator of Kubernetes under a scheduler's load: one workload in (a file or standard input), one line of figures out.
//
// Usage: workload [--candidates 1|auto] [--timeout 10s] [FILE]
// or     workload --selectors FILE   how long selectors take to compile and evaluate (selectors.go)
//
// Per pod as kube-scheduler does: copy the allocated state that is kept incrementally from the claims, construct the allocator, try node
// after node, take the first that fits of those found, and record the result. See docs/guides/allocator.md for the format.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type claim = resourceapi.ResourceClaim

type workload struct {
	Features     *structured.Features         `json:"features"`
	Nodes        []*corev1.Node               `json:"nodes"`
	Classes      []*resourceapi.DeviceClass   `json:"classes"`
	Slices       []*resourceapi.ResourceSlice `json:"slices"`
	Allocated    []*claim                     `json:"allocated"`
	ClaimsPerPod []*claim                     `json:"claims_per_pod"`
	PodVariants  [][]*claim                   `json:"pod_variants"`
	PodSequence  []int                        `json:"pod_sequence"`
	InitPods     int                          `json:"init_pods"`
	Pods         int                          `json:"pods"`
	MaxAlive     int                          `json:"max_alive"`
}

type figures struct {
	Scheduled     int     `json:"scheduled"`
	Unschedulable int     `json:"unschedulable"`
	Errors        int     `json:"errors"`
	PodsPerSecond float64 `json:"pods_per_s"`
	TotalSeconds  float64 `json:"total_s"`
	P50           float64 `json:"pod_p50_us"`
	P99           float64 `json:"pod_p99_us"`
	Digest        string  `json:"digest"`
	FirstError    string  `json:"first_error,omitempty"`
}

// classLister finds classes by name at once, as the scheduler's informer does.
type classLister map[string]*resourceapi.DeviceClass

func (c classLister) List() ([]*resourceapi.DeviceClass, error) {
	var all []*resourceapi.DeviceClass
	for _, class := range c {
		all = append(all, class)
	}
	return all, nil
}

func (c classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := c[name]; ok {
		return class, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Group: "resource.k8s.io", Resource: "deviceclass"}, name)
}

// usage is the allocated state, changed as allocations come and go and copied for each pod.
type usage struct {
	structured.AllocatedState
	consumable bool
}

func newUsage(consumable bool) *usage {
	return &usage{
		AllocatedState: structured.AllocatedState{
			AllocatedDevices:         sets.New[structured.DeviceID](),
			AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
			AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
		},
		consumable: consumable,
	}
}

func (u *usage) change(allocation *resourceapi.AllocationResult, add bool) {
	for _, result := range allocation.Devices.Results {
		if result.AdminAccess != nil && *result.AdminAccess {
			continue
		}
		id := structured.MakeDeviceID(result.Driver, result.Pool, result.Device)
		if !u.consumable || result.ShareID == nil {
			if add {
				u.AllocatedDevices.Insert(id)
			} else {
				u.AllocatedDevices.Delete(id)
			}
			continue
		}
		share := structured.MakeSharedDeviceID(id, result.ShareID)
		if add {
			u.AllocatedSharedDeviceIDs.Insert(share)
		} else {
			u.AllocatedSharedDeviceIDs.Delete(share)
		}
		if result.ConsumedCapacity != nil {
			consumed := structured.NewDeviceConsumedCapacity(id, result.ConsumedCapacity)
			if add {
				u.AggregatedCapacity.Insert(consumed)
			} else {
				u.AggregatedCapacity.Remove(consumed)
			}
		}
	}
}

func (u *usage) snapshot() structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         u.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: u.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       u.AggregatedCapacity.Clone(),
	}
}

// candidates is how many feasible nodes are looked for: kube-scheduler's number, or one.
func candidates(nodes int, auto bool) int {
	if !auto {
		return 1
	}
	if nodes < 100 {
		return nodes
	}
	return max(100, nodes*max(5, 50-nodes/125)/100)
}

type scheduler struct {
	workload
	features structured.Features
	classes  classLister
	cache    *cel.Cache
	used     *usage
	wanted   int
	auto     bool
	start    int
	timeout  time.Duration
}

func (s *scheduler) claims(pod int) []*claim {
	templates := s.ClaimsPerPod
	if templates == nil {
		variant := pod % len(s.PodVariants)
		if len(s.PodSequence) > 0 {
			variant = s.PodSequence[pod%len(s.PodSequence)]
		}
		templates = s.PodVariants[variant]
	}
	made := make([]*claim, len(templates))
	for i, template := range templates {
		one := *template
		one.Name = fmt.Sprintf("pod-%d-%s", pod, template.Name)
		one.UID = types.UID(one.Namespace + "/" + one.Name)
		made[i] = &one
	}
	return made
}

// schedule decides one pod: the index of its node, or -1.
func (s *scheduler) schedule(claims []*claim) (int, []resourceapi.AllocationResult, error) {
	allocator, err := structured.NewAllocator(context.Background(), s.features, s.used.snapshot(), s.classes, s.Slices, s.cache)
	if err != nil {
		return -1, nil, err
	}
	found, examined, chosen := 0, 0, -1
	var results []resourceapi.AllocationResult
	for examined < len(s.Nodes) && found < s.wanted {
		index := (s.start + examined) % len(s.Nodes)
		examined++
		answer, err := s.allocate(allocator, s.Nodes[index], claims)
		if errors.Is(err, structured.ErrFailedAllocationOnNode) {
			continue
		}
		if err != nil {
			s.advance(examined, -1)
			return -1, nil, err
		}
		if answer == nil && len(claims) > 0 {
			continue
		}
		found++
		if chosen < 0 {
			chosen, results = index, answer
		}
	}
	s.advance(examined, chosen)
	return chosen, results, nil
}

func (s *scheduler) allocate(allocator structured.Allocator, node *corev1.Node, claims []*claim) ([]resourceapi.AllocationResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	return allocator.Allocate(ctx, node, claims)
}

func (s *scheduler) advance(examined, chosen int) {
	if s.auto {
		s.start = (s.start + examined) % len(s.Nodes)
	} else if chosen >= 0 {
		s.start = chosen
	}
}

func (s *scheduler) commit(results []resourceapi.AllocationResult, add bool) {
	for i := range results {
		s.used.change(&results[i], add)
	}
}

func record(digest hash.Hash, node string, results []resourceapi.AllocationResult) error {
	var line any = []any{"", nil}
	if node != "" {
		devices := [][]string{}
		for _, result := range results {
			for _, each := range result.Devices.Results {
				devices = append(devices, []string{each.Request, each.Driver, each.Pool, each.Device})
			}
		}
		line = []any{node, devices}
	}
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	digest.Write(append(text, '\n'))
	return nil
}

func (s *scheduler) run() (figures, error) {
	var out figures
	for pod := range s.InitPods {
		_, results, err := s.schedule(s.claims(pod))
		if err == nil {
			s.commit(results, true)
		}
	}
	var waiting [][]*claim
	for i := range s.Pods {
		waiting = append(waiting, s.claims(s.InitPods+i))
	}
	chosenNodes := make([]string, 0, s.Pods)
	chosenDevices := make([][]resourceapi.AllocationResult, 0, s.Pods)
	var alive [][]resourceapi.AllocationResult
	micros := make([]float64, 0, s.Pods)
	begin := time.Now()
	for _, claims := range waiting {
		if s.MaxAlive > 0 && len(alive) >= s.MaxAlive {
			s.commit(alive[0], false)
			alive = alive[1:]
		}
		start := time.Now()
		chosen, results, err := s.schedule(claims)
		s.commit(results, true)
		micros = append(micros, float64(time.Since(start).Nanoseconds())/1000)
		node := ""
		switch {
		case err != nil:
			out.Errors++
			if out.FirstError == "" {
				out.FirstError = err.Error()
			}
		case chosen < 0:
			out.Unschedulable++
		default:
			out.Scheduled++
			node = s.Nodes[chosen].Name
			alive = append(alive, results)
		}
		chosenNodes = append(chosenNodes, node)
		chosenDevices = append(chosenDevices, results)
	}
	out.TotalSeconds = time.Since(begin).Seconds()
	digest := sha256.New()
	for i, node := range chosenNodes {
		if err := record(digest, node, chosenDevices[i]); err != nil {
			return out, err
		}
	}
	out.PodsPerSecond = float64(s.Pods) / max(out.TotalSeconds, 1e-9)
	slices.Sort(micros)
	out.P50, out.P99 = percentile(micros, 50), percentile(micros, 99)
	out.Digest = hex.EncodeToString(digest.Sum(nil))[:16]
	return out, nil
}

func percentile(sorted []float64, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

func everything() structured.Features {
	return structured.Features{
		AdminAccess: true, CompatibilityGroups: true, ConsumableCapacity: true, DerivedAttributes: true,
		DeviceBindingAndStatus: true, DeviceTaints: true, FractionalCapacityRange: true, ListTypeAttributes: true,
		OptionalNodeOperations: true, PartitionableDevices: true, PrioritizedList: true,
	}
}

func load(path string) (workload, error) {
	var loaded workload
	source := io.Reader(os.Stdin)
	if path != "" && path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return loaded, err
		}
		defer file.Close()
		source = file
	}
	return loaded, json.NewDecoder(source).Decode(&loaded)
}

func main() {
	mode := flag.String("candidates", "1", "how many feasible nodes to look for: 1 or auto")
	timeout := flag.Duration("timeout", 10*time.Second, "limit of one allocation attempt")
	selectors := flag.String("selectors", "", "a file of selectors to time instead")
	flag.Parse()
	if *selectors != "" {
		if err := timeSelectors(*selectors); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if *mode != "auto" && *mode != strconv.Itoa(1) {
		fmt.Fprintln(os.Stderr, "--candidates must be 1 or auto")
		os.Exit(2)
	}
	loaded, err := load(flag.Arg(0))
	if err == nil && len(loaded.Nodes) == 0 {
		err = errors.New("no nodes")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	// The stable variant walks pools in random order, and no default set of features leads to it.
	structured.EnableAllocators("incubating", "experimental")
	features := everything()
	if loaded.Features != nil {
		features = *loaded.Features
	}
	classes := classLister{}
	for _, class := range loaded.Classes {
		classes[class.Name] = class
	}
	used := newUsage(features.ConsumableCapacity)
	for _, one := range loaded.Allocated {
		if one.Status.Allocation != nil {
			used.change(one.Status.Allocation, true)
		}
	}
	auto := *mode == "auto"
	s := scheduler{
		workload: loaded,
		features: features,
		classes:  classes,
		// The scheduler's cache has this size.
		cache: cel.NewCache(10, cel.Features{
			EnableConsumableCapacity: features.ConsumableCapacity,
			EnableListTypeAttributes: features.ListTypeAttributes,
		}),
		used:    used,
		wanted:  candidates(len(loaded.Nodes), auto),
		auto:    auto,
		timeout: *timeout,
	}
	out, err := s.run()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
