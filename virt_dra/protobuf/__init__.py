"""Messages of other projects' gRPC services, declared as tables: no generated code, and no compiler to run.

The node driver and the hook sidecar declare theirs with it. Must not know any service, nor import anything of the
project.
"""
