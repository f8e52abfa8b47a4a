"""The scheduler of classic DRA: what it decides (pure), and its loop (C-18.6)."""
