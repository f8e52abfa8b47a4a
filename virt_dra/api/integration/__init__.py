"""How a claimed device reaches KubeVirt: integration paths, address attributes, metadata files, and every name that
webhook, operator and launcher must agree on (K-6, K-7.7, K-11); what is in its way on a cluster or node, as findings.

Must not do I/O or know a cluster.
"""
