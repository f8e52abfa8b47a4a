"""``virt-dra webhook`` and ``virt-dra webhook-certificates``: from options to processes. Verdicts come from
:mod:`webhooks`."""
