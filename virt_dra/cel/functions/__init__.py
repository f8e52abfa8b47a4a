"""The functions and operators of Kubernetes' CEL environment, one module a library."""
