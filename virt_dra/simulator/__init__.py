"""Drives VMs through the hand-overs on a cluster port, standing in for what only a real cluster has (nodes' agents, the
kubelet). Must not know the command line."""
