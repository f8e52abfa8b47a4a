"""Text to JSON values to typed objects, and back: JSON and YAML as Kubernetes reads them, with the place of every
error.

Must not open files: texts come in as strings or bytes.
"""
