"""The objects that a VMI's line of device profiles needs on the cluster, and whether it still has what the line stands
for.

Must not read a VM's line in another way than :mod:`virt_dra.api.profiles`, and must not trust the record that a VMI
carries: whoever may write VMIs may write it.
"""
