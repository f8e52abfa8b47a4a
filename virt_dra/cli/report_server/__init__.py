"""``virt-dra report-server``: from options to the process that serves the report, and what its other process
renders."""
