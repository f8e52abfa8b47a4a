"""Changes of the host: what a claim needs, in steps that are verified and can be undone (D-44 to D-49, D-60 to D-64).

Must not know: claims, kubelet, the API server.
"""
