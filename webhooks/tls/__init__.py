"""Certificates of the webhook: making them, keeping them in folders or Secrets, exchanging them under way.

Must not know what is served.
"""
