"""Certificates of the webhook: making them, keeping them in folders or Secrets, reloading them while serving.

Must not know the server, reviews or an API server's client.
"""
