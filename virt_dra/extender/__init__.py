"""A scheduler extender: scores the nodes that fit a pod with claims by a placement policy, for kube-scheduler.

    protocol          requests and answers of kube-scheduler
    advisor           knows the cluster; scores nodes; remembers what was decided and isn't visible yet
    advising_process  the process in which the advisor runs: it evaluates selectors that tenants write
    following         informers, whose changes it gets
    server            HTTP, probes, metrics

kube-scheduler stays the one that allocates: an answer changes which node it takes, never what fits, and without one it
goes on as before.
"""
