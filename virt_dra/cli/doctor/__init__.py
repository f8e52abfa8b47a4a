"""``virt-dra doctor``: the command. Its checks are :mod:`virt_dra.doctor`."""
