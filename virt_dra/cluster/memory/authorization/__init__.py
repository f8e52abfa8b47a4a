"""Authorization in the embedded cluster: role-based access control, nodes, and the granular rules of a claim's status.
Pure functions of a request and of what the cluster holds; nothing here writes."""
