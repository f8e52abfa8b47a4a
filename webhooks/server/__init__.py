"""The HTTPS server of the webhooks: connections, callers, limits, logs, metrics.

Must not decide a verdict itself, nor call an API server.
"""
