"""The control loops of the embedded cluster: VMs, claims, scheduler, device status. Each gathers, plans (pure) and
applies.

Must not import the operator or its modes.
"""
