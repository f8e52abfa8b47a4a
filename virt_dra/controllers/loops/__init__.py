"""The control loops of the embedded cluster: each gathers, plans (pure) and applies. Must not import the operator."""
