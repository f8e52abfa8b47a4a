"""``virt-dra install`` and ``virt-dra uninstall``: the commands. What is applied and removed is planned in
:mod:`virt_dra.installation`."""
