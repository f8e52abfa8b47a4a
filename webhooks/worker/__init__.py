"""Evaluates tenants' selectors in processes that can be killed (docs/decisions/0011-webhook-server.md).

A server starts one worker process (:mod:`webhooks.worker.process`). It holds a replica of the published devices and forks a child for every
question; the child evaluates (:mod:`webhooks.worker.child`) under limits that the kernel enforces, and ends.
:class:`webhooks.worker.parent.Worker` is the server's side, :mod:`webhooks.worker.turns` says whose question is next,
:mod:`webhooks.worker.wire` what both sides write. What a child writes is not trusted.
"""
