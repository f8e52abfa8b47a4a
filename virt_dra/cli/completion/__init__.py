"""``virt-dra completion``, and the answers to shells. They are looked up in a table, ``options.json``: nothing large is
imported while somebody types.
"""
