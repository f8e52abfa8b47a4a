"""Wire types and everything that follows from the API alone: the lowest layer.

    wire, meta, quantity, semver    what every type is made of
    core_v1, resource_v1, kubevirt_v1   the types, with every field; shapes only
    scheme                          which class reads which kind; the one way from JSON to a typed object
    documents                       YAML and JSON text -> objects with their place (yaml_*, json_text: its parts)
    structural_schema, custom_resources   the CRDs of our kinds, made of the types
    schema_walk, kubevirt_schema    raw objects as an API server checks them: unknown fields, pruning, faults; the
                                    fields of VMs by release
    conversion                      older API versions -> v1 and back
    defaults                        what an API server implies
    names, validation               what it refuses, in its words
    kubevirt_versions               versions and feature gates of KubeVirt

Must not import any other part of the project, an I/O library, a clock or randomness, nor decide about devices.
"""
