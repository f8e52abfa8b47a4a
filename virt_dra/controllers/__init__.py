"""The controllers: each gathers its inputs from the cluster, makes a pure plan, and applies it.

They see the cluster only through :mod:`virt_dra.cluster.port` and :mod:`virt_dra.cluster.watching`, never an
implementation of it. Time and randomness are arguments. What a controller reports (an Event, a refused write) is data,
never an exception.
"""
