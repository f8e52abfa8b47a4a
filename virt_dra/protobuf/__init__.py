"""Messages of other projects' gRPC services, declared as tables: no generated code, no compiler to run. Must not know
any service, nor import anything of the project."""
