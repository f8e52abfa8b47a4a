"""What can be corrected mechanically: which change of which object removes a finding, and the texts with these changes.

A check attaches a :mod:`repairs` to its finding; :mod:`targets` finds the objects and the changes of them,
:mod:`planning` edits the texts, lints the result and keeps what is better. Pure: asking and writing is the command's.
"""
