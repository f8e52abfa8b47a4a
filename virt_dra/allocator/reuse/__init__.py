"""Reuse: equal work for many pods and nodes is done once. Never changes an answer.

`pod_classes` groups pods with equal claims, `node_classes` nodes that the search can't distinguish; an outcome is kept
per pair of classes. `caches` keeps both beside the snapshots. `batch` places pod after pod.
"""
