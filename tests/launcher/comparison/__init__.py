"""Two domains compared by what they say of devices and placement."""
