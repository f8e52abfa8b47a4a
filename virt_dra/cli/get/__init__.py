"""``virt-dra get``: rows of the inventory as tables, documents and CSV, once or as they change. The rows are
:mod:`virt_dra.inventory`."""
