"""The webhook of launcher pods."""
