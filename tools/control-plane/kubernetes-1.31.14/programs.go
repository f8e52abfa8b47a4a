// Package programs names what tools/control-plane.sh builds of Kubernetes 1.31.14, the newest release with classic DRA,
// so that go.mod and go.sum cover it. They were made as those of ../kubernetes.
package programs

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	_ "k8s.io/kubernetes/cmd/kube-scheduler/app"
)
