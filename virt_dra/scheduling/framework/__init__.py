"""The scheduling framework: what a plugin is, and how an attempt to schedule a pod goes through its plugins (C-5), in a
`cycle` in the order of kube-scheduler's extension points. Pure: the loop does the writes."""
