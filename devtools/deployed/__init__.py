"""virt-dra as users deploy it, on a control plane of :mod:`devtools.cluster`: overlays, the webhook, the operator,
whole worlds.

Our components run as processes with the rights of their ServiceAccounts. Nothing here calls virt-dra's code to do what
a component does.
"""
