"""The controllers: each gathers its inputs from the cluster, makes a pure plan, and applies it.

They see the cluster only through :mod:`virt_dra.cluster.port` and :mod:`virt_dra.cluster.watching`; no module imports
an implementation of the port, the command line, ``webhooks`` or ``launcher``. Time and randomness are arguments. What a
controller reports (an Event, a refused write) is data, never an exception.

They share ``sources`` (what a reconcile reads), ``writes`` (what a plan may write), ``reconciled`` (its result),
``events``, ``conditions``, ``kubevirt_failures`` and ``transforms`` (what informers keep of objects).
"""
