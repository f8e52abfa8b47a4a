"""Device taint eviction: pods whose devices have a NoExecute taint that their claims don't tolerate are deleted (C-11).
Must not allocate."""
