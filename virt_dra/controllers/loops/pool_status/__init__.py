"""Pool status: the answer to a ResourcePoolStatusRequest, how much of a driver's pools is in use (C-12).

``pools`` counts devices, ``partition_view`` and ``shareable_view`` say what more fits; ``loop`` answers, tries again
and cleans up.

Must not allocate.
"""
