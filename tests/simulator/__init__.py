"""``virt-dra run`` below its command line: dumps of clusters, handovers, verdicts."""
