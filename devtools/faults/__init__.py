"""What may go wrong around us goes wrong, on a real control plane while VMs start: nothing may be lost, nothing done
twice.

Everything random comes from a seed. ``python -m bench faults`` does the same with more VMs and faults;
docs/reliability.md has its figures.

* :mod:`.site`: a cluster with one of our overlays, whose operator the faults start and end
* :mod:`.ledger`: every object that ever existed, from watches, and every write of the operator, from the API server's
  audit log
* :mod:`.scenarios`: the faults
* :mod:`.certificates`: reviews without end, and certificates that change meanwhile
"""
