"""One reconcile of one VMI beside KubeVirt (decision 0012). Must not import ``standalone``."""
