"""The filters of kube-scheduler's default profile, one a file: each a plugin with its reason code, its check and its
score. :mod:`virt_dra.scheduling.filter_table` has them in order, and with them the one for devices,
:mod:`virt_dra.scheduling.dynamic_resources`."""
