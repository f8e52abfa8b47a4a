"""The JSON and YAML documents that commands write: their ``apiVersion`` and ``kind``, and the shape of those that
several commands have."""
