"""What a cluster's administrators set: roles and their bindings, quotas and what counts towards them, pod defaults,
priorities, which nodes a selector selects. Pure."""
