"""CEL: answers recorded of Kubernetes' own package (``cases/``), costs, and limits of what an expression may take."""
