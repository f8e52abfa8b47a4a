"""What selectors say of published devices: questions, answers, and their evaluation.

Selectors are written by tenants, and may take long whatever is done about it. So whoever serves others has :mod:`webhooks.worker` evaluate
them in a process that can be killed; in here :mod:`webhooks.selectors.evaluating` is the only module that does it. Takes only
``virt_dra.api`` and ``virt_dra.cel``, and knows no VM.
"""
