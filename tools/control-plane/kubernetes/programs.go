// Package kubernetes names what tools/control-plane.sh builds, so that go.mod and go.sum cover it. They were made by
//
//	go mod tidy -e
//
// from a go.mod with k8s.io/kubernetes and a replace line for each of its staging modules, as its own go.mod names them.
package kubernetes

import (
	_ "k8s.io/kubectl/pkg/cmd"
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
	_ "k8s.io/kubernetes/cmd/kubelet/app"
)
