"""Classic DRA (C-18)."""
