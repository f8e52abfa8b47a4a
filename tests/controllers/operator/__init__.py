"""The operator's loop: what is watched, explained, kept, and in which order things may happen."""
