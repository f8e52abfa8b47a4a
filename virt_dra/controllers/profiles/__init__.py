"""The objects that a VMI's line of device profiles needs, and whether it still has what the line stands for. Must read
a line only by :mod:`virt_dra.api.profiles`, and not trust a VMI's record: whoever may write VMIs may write it."""
