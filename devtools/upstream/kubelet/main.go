// Program kubelet is the part of a kubelet that talks to DRA drivers, over Kubernetes' own packages: the plugin manager, which finds drivers by
// their sockets, and the DRA manager, which has them prepare and release claims. The API server is client-go's fake.
//
// Commands are JSON objects on stdin, one a line, each with an "id" and a "do"; so are the answers on stdout, each with the id, and "error" or
// "result". Commands run side by side: an answer comes when it is there.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	draplugin "k8s.io/kubernetes/pkg/kubelet/cm/dra/plugin"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

type command struct {
	ID int    `json:"id"`
	Do string `json:"do"`

	Pod       *v1.Pod                     `json:"pod"`
	Claims    []resourceapi.ResourceClaim `json:"claims"`
	Slices    []resourceapi.ResourceSlice `json:"slices"`
	Container string                      `json:"container"`
	Driver    string                      `json:"driver"`
	Folder    string                      `json:"folder"`
	UID       string                      `json:"uid"`
	Path      string                      `json:"path"`
	Devices   []string                    `json:"devices"`
	Message   string                      `json:"message"`
	Value     json.RawMessage             `json:"value"`
}

type answer struct {
	ID     int    `json:"id"`
	Error  string `json:"error,omitempty"`
	Result any    `json:"result,omitempty"`
}

type node struct {
	name    string
	client  *fake.Clientset
	manager *dra.Manager
	plugins *draplugin.DRAPluginManager

	mutex    sync.Mutex
	active   map[types.UID]*v1.Pod
	podsSeen bool
}

func main() {
	name := flag.String("node", "node-a", "name of the node")
	registry := flag.String("registry", "", "folder of registration sockets")
	state := flag.String("state", "", "folder of the DRA manager's state")
	wiping := flag.Duration("wiping-delay", 30*time.Second, "after which slices of a driver that is away are deleted")
	period := flag.Duration("reconcile-period", time.Minute, "of looking for claims of pods that are gone")
	klog.InitFlags(nil)
	flag.Parse()

	n := &node{name: *name, active: map[types.UID]*v1.Pod{}}
	if *registry != "" {
		n.start(context.Background(), *registry, *state, *wiping, *period)
	}
	var writing sync.Mutex
	encoder := json.NewEncoder(os.Stdout)
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var c command
		if err := json.Unmarshal(line, &c); err != nil {
			klog.Fatalf("%s: %v", line, err)
		}
		go func() {
			a := answer{ID: c.ID}
			result, err := n.run(context.Background(), &c)
			if err != nil {
				a.Error = err.Error()
			} else {
				a.Result = result
			}
			writing.Lock()
			defer writing.Unlock()
			if err := encoder.Encode(a); err != nil {
				klog.Fatal(err)
			}
		}()
	}
}

func (n *node) start(ctx context.Context, registry, state string, wiping, period time.Duration) {
	n.client = fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, UID: "node-uid"}})
	n.client.PrependReactor("delete-collection", "resourceslices", n.deleteSlices)
	manager, err := dra.NewManager(klog.Background(), n.client, state)
	if err != nil {
		klog.Fatal(err)
	}
	set(manager, "reconcilePeriod", period)
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return n.knowsPods() })
	getNode := func(ctx context.Context) (*v1.Node, error) {
		return n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	}
	if err := manager.Start(ctx, n.activePods, getNode, ready); err != nil {
		klog.Fatal(err)
	}
	n.manager = manager
	n.plugins = manager.GetWatcherHandler().(*draplugin.DRAPluginManager)
	set(n.plugins, "wipingDelay", wiping)
	plugins := pluginmanager.NewPluginManager(registry, record.NewFakeRecorder(1000))
	plugins.AddHandler(registerapi.DRAPlugin, n.plugins)
	go plugins.Run(ctx, ready, ctx.Done())
}

// set changes a duration that the kubelet keeps private, before anything uses it: a test can't wait for minutes.
func set(object any, field string, duration time.Duration) {
	value := reflect.ValueOf(object).Elem().FieldByName(field)
	reflect.NewAt(value.Type(), value.Addr().UnsafePointer()).Elem().SetInt(int64(duration))
}

// deleteSlices honours the field selector, which the fake ignores.
func (n *node) deleteSlices(action clienttesting.Action) (bool, runtime.Object, error) {
	selector := action.(clienttesting.DeleteCollectionAction).GetListRestrictions().Fields
	objects, err := n.client.Tracker().List(resourceapi.SchemeGroupVersion.WithResource("resourceslices"),
		resourceapi.SchemeGroupVersion.WithKind("ResourceSlice"), "")
	if err != nil {
		return true, nil, err
	}
	for _, slice := range objects.(*resourceapi.ResourceSliceList).Items {
		set := fields.Set{"spec.driver": slice.Spec.Driver, "spec.nodeName": *slice.Spec.NodeName}
		if selector == nil || selector.Matches(set) {
			if err := n.client.Tracker().Delete(action.GetResource(), "", slice.Name); err != nil {
				return true, nil, err
			}
		}
	}
	return true, nil, nil
}

func (n *node) activePods() []*v1.Pod {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	var pods []*v1.Pod
	for _, pod := range n.active {
		pods = append(pods, pod)
	}
	return pods
}

// knowsPods is false until the first pod is there: a kubelet that starts releases nothing before it knows its pods.
func (n *node) knowsPods() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.podsSeen
}

func (n *node) run(ctx context.Context, c *command) (any, error) {
	switch c.Do {
	case "create":
		return nil, n.create(ctx, c)
	case "delete-claim":
		return nil, n.client.ResourceV1().ResourceClaims(c.Claims[0].Namespace).Delete(ctx, c.Claims[0].Name, metav1.DeleteOptions{})
	case "registered":
		_, err := n.plugins.GetPlugin(c.Driver)
		return nil, err
	case "prepare":
		n.mutex.Lock()
		n.active[c.Pod.UID] = c.Pod
		n.podsSeen = true
		n.mutex.Unlock()
		return nil, n.manager.PrepareResources(ctx, c.Pod)
	case "unprepare":
		return nil, n.manager.UnprepareResources(ctx, c.Pod)
	case "forget-pod": // as after a forced deletion
		n.mutex.Lock()
		defer n.mutex.Unlock()
		delete(n.active, c.Pod.UID)
		return nil, nil
	case "needs-unprepare":
		return n.manager.PodMightNeedToUnprepareResources(c.Pod.UID), nil
	case "cdi-devices":
		return n.cdiDevices(c)
	case "health":
		return n.health(c), nil
	case "slices":
		return n.slices(ctx)
	}
	return judge(c)
}

func (n *node) create(ctx context.Context, c *command) error {
	for i := range c.Claims {
		if _, err := n.client.ResourceV1().ResourceClaims(c.Claims[i].Namespace).Create(ctx, &c.Claims[i], metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	for i := range c.Slices {
		if _, err := n.client.ResourceV1().ResourceSlices().Create(ctx, &c.Slices[i], metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) container(c *command) (*v1.Container, error) {
	for i := range c.Pod.Spec.Containers {
		if c.Pod.Spec.Containers[i].Name == c.Container {
			return &c.Pod.Spec.Containers[i], nil
		}
	}
	return nil, fmt.Errorf("no container %q", c.Container)
}

func (n *node) cdiDevices(c *command) (any, error) {
	container, err := n.container(c)
	if err != nil {
		return nil, err
	}
	info, err := n.manager.GetResources(c.Pod, container)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, device := range info.CDIDevices {
		names = append(names, device.Name)
	}
	return names, nil
}

// health is what the kubelet would write into the pod's container statuses.
func (n *node) health(c *command) any {
	status := v1.PodStatus{}
	for _, container := range c.Pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, v1.ContainerStatus{Name: container.Name})
	}
	n.manager.UpdateAllocatedResourcesStatus(klog.Background(), c.Pod, &status)
	result := map[string][]v1.ResourceStatus{}
	for _, container := range status.ContainerStatuses {
		result[container.Name] = container.AllocatedResourcesStatus
	}
	return result
}

func (n *node) slices(ctx context.Context) (any, error) {
	list, err := n.client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, slice := range list.Items {
		names = append(names, slice.Name)
	}
	return names, nil
}
