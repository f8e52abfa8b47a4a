"""Device selectors matched with published devices: which selector of a list is the first that isn't true for a device.

One :class:`~virt_dra.matching.matcher.Matcher` serves the allocator, the lint, the webhook, ``virt-dra cel`` and
``virt-dra explain``; it alone calls :meth:`virt_dra.cel.CompiledSelector.matches`. Callers differ in two points only.
On an evaluation that fails, the allocator ends the attempt, as Kubernetes does, where the lint reports it and goes on:
the outcomes come one by one, so each stops where it must. An evaluation that exceeds a limit of virt-dra's own is a
failure to the allocator, and undecided to the lint (:attr:`~virt_dra.matching.matcher.Mismatch.undecided`).

:mod:`~virt_dra.matching.slice_answers` keeps outcomes per version of a slice, for inventories that change slice by
slice and for evaluation in another process. The allocator, whose snapshot fixes all slices, keeps them per device.

Tenants write selectors, and no limit within a process bounds their evaluation reliably: a server has them evaluated in
a process that can be killed. This package imports only ``virt_dra.api`` and ``virt_dra.cel``; it must not know claims,
pods and VMs, do I/O or read a clock.
"""
