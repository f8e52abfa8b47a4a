"""``make cluster``: a control plane to play with, on demand with nodes, GPUs, kubelets and KubeVirt."""
