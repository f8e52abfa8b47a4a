"""``virt-dra lint``: the command and its reports. The checks are :mod:`webhooks.lint`."""
