"""Child processes for hostile or long work."""
