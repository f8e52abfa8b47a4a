"""What happens to a claim on the node: gather (``allocation``, ``parameters``), plan (``planning``, pure), apply
(``service``, ``carrying_out``), and repair after crashes and reboots (``repairing``).

Must not know: gRPC, and how the host is changed.
"""
