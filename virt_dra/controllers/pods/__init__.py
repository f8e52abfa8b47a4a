"""The launcher pod of a VMI: rendered, its requests, the current one (K-4, K-5.1). Must not know a mode of the
operator."""
