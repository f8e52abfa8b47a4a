// Command driver is a control-plane driver of classic DRA, on Kubernetes' own library: a witness for virt_dra/classic.
//
//	driver KUBECONFIG NAME FILE
//
// The JSON of FILE says what it has and how it fails, and is read again at each call.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/controller"
)

// settings: node -> number of devices, and the texts of failures; an empty one means none.
type settings struct {
	Devices         map[string]int `json:"devices"`
	Shareable       bool           `json:"shareable"`
	Allocate        string         `json:"allocate"`
	Deallocate      string         `json:"deallocate"`
	UnsuitableNodes string         `json:"unsuitableNodes"`
	ClassParameters string         `json:"classParameters"`
	ClaimParameters string         `json:"claimParameters"`
}

type driver struct {
	name, file string
	mutex      sync.Mutex
	held       map[types.UID]string
}

func (d *driver) settings() (s settings) {
	content, err := os.ReadFile(d.file)
	if err == nil {
		err = json.Unmarshal(content, &s)
	}
	if err != nil {
		panic(err)
	}
	return s
}

func (d *driver) left(s settings, node string) int {
	left := s.Devices[node]
	for _, holder := range d.held {
		if holder == node {
			left--
		}
	}
	return left
}

func failure(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

func (d *driver) Allocate(_ context.Context, claims []*controller.ClaimAllocation, node string) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.settings()
	for _, claim := range claims {
		held, ok := d.held[claim.Claim.UID]
		switch {
		case s.Allocate != "":
			claim.Error = errors.New(s.Allocate)
			continue
		case ok:
		case node == "":
			for name := range s.Devices {
				if d.left(s, name) > 0 && (held == "" || name < held) {
					held = name
				}
			}
		case d.left(s, node) > 0:
			held = node
		}
		if held == "" {
			claim.Error = errors.New("no device left")
			continue
		}
		d.held[claim.Claim.UID] = held
		term := core.NodeSelectorTerm{MatchFields: []core.NodeSelectorRequirement{
			{Key: "metadata.name", Operator: core.NodeSelectorOpIn, Values: []string{held}},
		}}
		claim.Allocation = &resource.AllocationResult{
			NodeSelector: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{term}},
		}
	}
}

func (d *driver) Deallocate(_ context.Context, claim *resource.ResourceClaim) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if text := d.settings().Deallocate; text != "" {
		return errors.New(text)
	}
	delete(d.held, claim.UID)
	return nil
}

func (d *driver) UnsuitableNodes(_ context.Context, _ *core.Pod, claims []*controller.ClaimAllocation, nodes []string) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	s := d.settings()
	for _, node := range nodes {
		wanted, fits := 0, true
		for _, claim := range claims {
			held, ok := d.held[claim.Claim.UID]
			if !ok {
				wanted++
			} else if held != node {
				fits = false
			}
		}
		if fits && wanted <= d.left(s, node) {
			continue
		}
		for _, claim := range claims {
			if !slices.Contains(claim.UnsuitableNodes, node) {
				claim.UnsuitableNodes = append(claim.UnsuitableNodes, node)
			}
		}
	}
	return failure(s.UnsuitableNodes)
}

func main() {
	ctx := context.Background()
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		panic(err)
	}
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, time.Hour)
	d := &driver{name: os.Args[2], file: os.Args[3], held: map[types.UID]string{}}
	made := controller.New(ctx, d.name, d, client, factory)
	factory.Start(ctx.Done())
	made.Run(1)
}
