"""The scheduling framework: what a plugin is, and how an attempt to schedule a pod goes through its plugins (C-5).

A plugin refuses, scores and explains; `cycle` asks all of them in the order of kube-scheduler's extension points,
`messages` writes its texts, `events` names what wakes a waiting pod, `node_table` is the cluster's nodes with the pods
on them. Pure: the loop does the writes.
"""
