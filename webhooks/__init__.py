"""Admission webhooks: pure rules for VMIs (:mod:`webhooks.vmi`) and for the objects that they name
(:mod:`webhooks.lint`), and the server.

Must not import the launcher or anything that reads a cluster: of ``virt_dra`` only ``api``, ``cel``, ``matching``,
``fairness``, ``sandbox`` and the model's objects.
"""
