"""Device selectors matched with published devices: which selector of a list is the first that isn't true for a device.
One :class:`~virt_dra.matching.matcher.Matcher` serves all. On an evaluation that fails, the allocator ends the attempt,
as Kubernetes does, where the lint goes on; one that exceeds a limit of virt-dra's own is undecided to the lint
(:attr:`~virt_dra.matching.matcher.Mismatch.undecided`). Tenants write selectors, and no limit within a process bounds
their evaluation reliably: a server has them evaluated in a process that can be killed. Must not know claims, pods and
VMs, do I/O or read a clock."""
