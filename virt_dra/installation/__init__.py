"""Installing and removing virt-dra: the objects and their order, refusals, applying, waiting, and the webhook's
certificates.

Must not print or know the command line. Only ``survey``, ``apply``, ``remove`` and ``webhook_authority`` make requests
to a cluster.
"""
