"""``virt-dra completion``, and the answers to shells. They are looked up in a table, ``options.json``: large modules
aren't imported for a completion.
"""
