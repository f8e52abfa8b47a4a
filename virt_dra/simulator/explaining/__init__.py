"""Why a pod of a VM, or a claim, gets no node (``answer``), and ways out that were tried on copies of the cluster
(``ways_out``). Pure."""
