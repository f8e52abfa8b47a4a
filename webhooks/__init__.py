"""Admission webhooks: pure rules for VMIs (:mod:`webhooks.vmi`) and for the objects that they name
(:mod:`webhooks.lint`), and the server.

Must not import anything of virt_dra but ``virt_dra.api`` and ``virt_dra.cel``, nor the launcher; it has no connection
to a cluster.
"""
