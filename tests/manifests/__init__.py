"""The manifests: CRDs, overlays, rights, monitoring; on a real cluster as installed."""
