"""``virt-dra scenario``: wires the player of scenarios and prints its answers."""
