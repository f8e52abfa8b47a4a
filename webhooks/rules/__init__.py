"""KubeVirt's admission rules (K-2), one small function each, put in order by :mod:`webhooks.vmi`.

A rule takes the :class:`~webhooks.rules.reviewed_spec.ReviewedSpec` and yields its causes, in KubeVirt's order. Rules
must not change their input; they don't see the cluster.
"""
