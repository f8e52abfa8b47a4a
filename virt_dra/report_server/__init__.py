"""The report as a live page: a process that follows the cluster and renders, and one that serves those who may see it.

    API server ──watch──► child: informers, rendering ──finished pages──► parent: TLS, sessions, streams ──► browsers
                               evaluates what tenants wrote                        │ TokenReview, SubjectAccessReview
                                                                                   ▼ API server

The parent evaluates nothing that comes from objects. Neither writes to the cluster. Must not know the command line.
Why it is built like this: docs/decisions/0019-live-report.md.
"""
