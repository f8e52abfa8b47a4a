"""Reuse: equal work for many pods (`pod_classes`) and nodes (`node_classes`) is done once. Never changes an answer."""
