"""JSONPath templates and custom columns as Kubernetes answers them: a program around its package, and the recorder of
its answers to random templates and chosen ones."""
