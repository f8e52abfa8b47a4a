"""A short run of each scenario of :mod:`devtools.faults`; ``python -m bench faults`` runs them with more VMs and
faults."""
