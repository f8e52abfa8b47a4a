"""libvirt as a witness of domain XML: its schema, its tools, and a daemon of our own that leaves the host's alone."""
