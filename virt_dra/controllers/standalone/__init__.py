"""The reconciles of a VMI and of a VM without KubeVirt (decision 0012). Must not import ``beside_kubevirt``."""
