"""What a change of manifests would do to a cluster: composed of what is stored (`virt_dra.api.schemas.applying`),
`explaining.difference` and `experiment.what_if`. Pure."""
