"""Templates of ``-o``: kubectl's JSONPath and its custom columns, which answer and refuse as Kubernetes' own Go code
(``k8s.io/client-go/util/jsonpath``). No library for Python has this dialect (docs/decisions/0002-libraries.md).

Pure. Knows no command and no object; a template is applied to a JSON value.
"""
