"""Admission: pure rules over VMIs (:mod:`webhooks.vmi`), over what they name (:mod:`webhooks.lint`), and the server that asks them.

Takes only ``virt_dra.api`` (and ``virt_dra.cel``) from virt_dra, knows no cluster and not the launcher.
"""
