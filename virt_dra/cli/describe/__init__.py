"""``virt-dra describe``: everything that is known of one row of the inventory. The content is
:mod:`virt_dra.inventory.details`."""
