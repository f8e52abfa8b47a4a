"""Wire types, quantities, names and versions."""
