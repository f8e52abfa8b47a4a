"""``virt-dra explain``: why a VM, pod or claim gets no place, who holds what it wants, ways out; and a page for each
finding and reason."""
