"""A fork server that evaluates tenants' CEL selectors in processes that can be killed
(docs/decisions/0011-webhook-server.md).

The webhook's server starts one worker process (:mod:`webhooks.worker.process`, a :mod:`virt_dra.sandbox`). It holds a
replica of the published devices and forks a child for the questions of each review; the child evaluates them under
limits that the kernel enforces, and exits. :class:`webhooks.worker.parent.Worker` is the server's side,
:mod:`webhooks.worker.replica` its handle on the process, :mod:`webhooks.worker.evaluation_queue` the queue that is fair
between namespaces, :mod:`webhooks.worker.wire` the messages. What a child sends is not trusted.

Must not know VMs, reviews or HTTP: it imports only :mod:`virt_dra.matching` and :mod:`virt_dra.sandbox`, and what they
import.
"""
