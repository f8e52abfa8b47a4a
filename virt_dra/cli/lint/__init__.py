"""``virt-dra lint``: the command, its options and its reports. The checks are :mod:`webhooks.lint`."""
