"""``virt-dra node-driver``: the DRA driver for devices that are passed through, and a look at what it would publish."""
