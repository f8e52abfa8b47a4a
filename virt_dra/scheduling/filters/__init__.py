"""The filters of kube-scheduler's default profile, one a file: a plugin with its reason code, check and score. Their
order, and the filter for devices, is in :mod:`virt_dra.scheduling.filter_table`."""
