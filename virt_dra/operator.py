"""The operator: what runs beside the API server. The only module that imports kopf."""
