// The ResourceSlice controller of Kubernetes' helper for drivers as a filter: one JSON object a line in, one a line out, in that order.
//
// in  {"driver", "node", "uid", "existing": [slices], "wanted": [{"devices", "sharedCounters"}], "drops": [fields of devices and slices]}
// out {"rounds": [[{"verb", "name", "object"}], ...], "errors": [texts]}: what it writes at first, and when it looks again
//
// The API server is client-go's fake, which stores what is written without the fields named in "drops": "taints", "counters".
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

type problem struct {
	Driver, Node, UID string
	Existing          []*resourceapi.ResourceSlice
	Wanted            []struct {
		Devices        []resourceapi.Device
		SharedCounters []resourceapi.CounterSet
	}
	Drops []string
}

type write struct {
	Verb   string                     `json:"verb"`
	Name   string                     `json:"name,omitempty"`
	Object *resourceapi.ResourceSlice `json:"object,omitempty"`
}

type answer struct {
	Rounds [][]write `json:"rounds"`
	Errors []string  `json:"errors"`
}

// steppedQueue says when a key has been handled, and adds keys only when it is told to.
type steppedQueue struct {
	workqueue.TypedRateLimitingInterface[string]
	handled chan struct{}
}

func (q *steppedQueue) Done(item string) {
	q.TypedRateLimitingInterface.Done(item)
	q.handled <- struct{}{}
}

func (q *steppedQueue) AddAfter(string, time.Duration) {}
func (q *steppedQueue) AddRateLimited(string)          {}

func main() {
	scanner := bufio.NewScanner(os.Stdin)
	scanner.Buffer(nil, 64<<20)
	var answers []*answer
	var running sync.WaitGroup
	// Each waits a second for its informer. The watch must have begun by then: the fake doesn't repeat what it missed.
	atOnce := make(chan struct{}, 30)
	for scanner.Scan() {
		given, made := new(problem), new(answer)
		if err := json.Unmarshal(scanner.Bytes(), given); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		answers = append(answers, made)
		running.Add(1)
		atOnce <- struct{}{}
		go func() {
			defer running.Done()
			defer func() { <-atOnce }()
			solve(given, made)
		}()
	}
	running.Wait()
	encoder := json.NewEncoder(os.Stdout)
	for _, made := range answers {
		if err := encoder.Encode(made); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func solve(given *problem, made *answer) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	objects := []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: given.Node, UID: types.UID(given.UID)}}}
	for _, slice := range given.Existing {
		objects = append(objects, slice)
	}
	client := fake.NewClientset(objects...)
	client.PrependReactor("*", "resourceslices", storing(client.Tracker(), given.Drops))
	queue := &steppedQueue{
		workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()), make(chan struct{}, 100),
	}
	pool := resourceslice.Pool{}
	for _, slice := range given.Wanted {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: slice.Devices, SharedCounters: slice.SharedCounters})
	}
	var errorsSeen sync.Mutex
	made.Errors = []string{}
	controller, err := resourceslice.StartController(ctx, resourceslice.Options{
		DriverName: given.Driver,
		KubeClient: client,
		Owner:      &resourceslice.Owner{APIVersion: "v1", Kind: "Node", Name: given.Node},
		Resources:  &resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{given.Node: pool}},
		Queue:      queue,
		ErrorHandler: func(_ context.Context, err error, _ string) {
			errorsSeen.Lock()
			defer errorsSeen.Unlock()
			made.Errors = append(made.Errors, err.Error())
		},
	})
	if err != nil {
		made.Errors = append(made.Errors, err.Error())
		return
	}
	defer controller.Stop()
	for range 2 {
		<-queue.handled
		time.Sleep(200 * time.Millisecond) // until the informer has seen the writes
		made.Rounds = append(made.Rounds, writes(client.Actions()))
		client.ClearActions()
		queue.Add(given.Node)
	}
	<-queue.handled
}

// storing names new objects, and stores what is written without some fields, as an API server does.
func storing(tracker clienttesting.ObjectTracker, dropped []string) clienttesting.ReactionFunc {
	created := 0
	return func(action clienttesting.Action) (bool, runtime.Object, error) {
		writing, ok := action.(clienttesting.CreateAction) // an update has the same methods
		if !ok {
			return false, nil, nil
		}
		slice := writing.GetObject().(*resourceapi.ResourceSlice)
		for _, field := range dropped {
			for i := range slice.Spec.Devices {
				switch field {
				case "taints":
					slice.Spec.Devices[i].Taints = nil
				case "counters":
					slice.Spec.Devices[i].ConsumesCounters = nil
				}
			}
			if field == "counters" {
				slice.Spec.SharedCounters = nil
			}
		}
		if action.GetVerb() == "update" {
			return true, slice, tracker.Update(action.GetResource(), slice, "")
		}
		created++
		slice.Name = fmt.Sprintf("%s%05d", slice.GenerateName, created)
		return true, slice, tracker.Create(action.GetResource(), slice, "")
	}
}

func writes(actions []clienttesting.Action) []write {
	made := []write{}
	for _, action := range actions {
		switch action := action.(type) {
		case clienttesting.DeleteAction:
			made = append(made, write{Verb: "delete", Name: action.GetName()})
		case clienttesting.CreateAction:
			slice := action.GetObject().(*resourceapi.ResourceSlice)
			made = append(made, write{Verb: action.GetVerb(), Name: slice.Name, Object: slice})
		}
	}
	return made
}
