"""Device taint eviction: pods whose devices have a NoExecute taint that their claims don't tolerate are deleted (C-11).

``evictions`` decides about one claim and one pod, ``rule_status`` about the condition of a rule; ``devices``, ``rules``
and ``taints`` remember what is published, ruled and allocated, so that a change costs what it affects; ``loop`` writes.
Must not allocate.
"""
