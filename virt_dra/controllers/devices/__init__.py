"""The devices of a VMI: pod, claim, allocation, slice, address (K-5). Pure. Must not know a mode of the operator."""
