"""``virt-dra webhook`` and ``virt-dra webhook-certificates``: from options to servers. Verdicts are :mod:`webhooks`'."""
