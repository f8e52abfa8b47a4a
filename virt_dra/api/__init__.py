"""Wire types and everything that follows from the API alone: the lowest layer.

    wire, meta, quantity, semver        the parts of every type
    core_v1, resource_v1, kubevirt_v1   the types, with every field; shapes only
    reading/                            YAML and JSON text -> typed objects with their place
    editing/                            corrections in a written object that keep all other characters
    schemas/                            raw objects as an API server checks them: unknown fields, pruning, faults; the
                                        fields of VMs by release
    conversion                          older API versions -> v1 and back
    defaults                            the fields that an API server fills in
    names, validation/                  the objects that it refuses, in its words
    policies/                           what it does to pods: defaults, quotas, roles
    instancetypes/                      instancetypes and preferences, expanded into a VM
    integration/                        names and paths on which webhook, operator and launcher agree
    kubevirt_versions                   versions and feature gates of KubeVirt

Must not import any other part of the project, an I/O library, a clock or randomness, nor decide about devices.
"""
