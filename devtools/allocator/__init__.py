"""Allocation problems in a short notation (:mod:`.build`), and a plain allocator without any pruning as a witness
(:mod:`.plain`)."""
