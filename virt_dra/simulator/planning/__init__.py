"""What a change of manifests would do to a cluster.

It composes the answers of others and has none of its own: what is stored (`virt_dra.api.schemas.applying`), which VMs
start or stop fitting (`explaining.difference`), and which start beside all others (`experiment.what_if`). Pure.
"""
