"""Histories of VMs that keep their devices, on the embedded cluster with the real loops: the keeper, kube-scheduler's
and the controllers' stand-ins, and, standalone, the operator.

:mod:`.world` has the machinery and what may happen in it, :mod:`.machine` makes histories of that (Hypothesis),
:mod:`.model` says why a device may be released, and :mod:`.judge` compares that with what is written. ``python -m
devtools.keeping 20000`` plays so many (``make conformance``), ``--faults`` puts faults into the keeper and says in how
many histories each is found out. It must not import tests.
"""
