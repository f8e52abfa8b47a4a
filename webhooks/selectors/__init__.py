"""Matching of CEL selectors with published devices: questions, answers, a cache of answers, and the evaluation.

Tenants write selectors, and no limit within a process bounds their evaluation reliably. So a server has
:mod:`webhooks.worker` evaluate them in a process that can be killed; :mod:`webhooks.selectors.evaluating` is the only
module that evaluates. Pure: must not start processes, do I/O or read a clock, and must not know VMs; it imports only
``virt_dra.api`` and ``virt_dra.cel``.
"""
