"""Which published devices CEL selectors match: questions, answers, a cache of answers, and the evaluation.

Tenants write selectors, and no limit within this process can bound their evaluation reliably. So a server has :mod:`webhooks.worker` do it
in a process that can be killed; :mod:`webhooks.selectors.evaluating` is the only module here that evaluates. This package imports only
``virt_dra.api`` and ``virt_dra.cel``, and knows nothing of VMs.
"""
