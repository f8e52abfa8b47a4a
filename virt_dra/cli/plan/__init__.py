"""``virt-dra plan``: what a change of manifests would do to a cluster."""
