"""The devices of a VMI: pod, claim, allocation, slice, address (K-5). Pure. Must not write or know a mode of the
operator."""
