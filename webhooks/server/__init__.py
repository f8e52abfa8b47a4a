"""The HTTPS server of the webhooks: connections, callers, limits, logs, metrics.

Must not decide a verdict, nor ask an API server during a review.
"""
