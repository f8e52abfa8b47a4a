"""The CustomResourceDefinitions in ``manifests/crds``, made of the wire types (docs/decisions/0014-manifests.md)."""
