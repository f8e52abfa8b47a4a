"""Edits of YAML and JSON texts that leave every other character as it is: comments, order, quotes, indentation.

A change says what becomes of a value (:mod:`changes`); :mod:`member_edits` turns it into edits of the text in which the
value stands, whose nodes :mod:`text_nodes` finds; :mod:`text_edits` applies and joins edits, :mod:`edit_diff` shows
them. Whoever edits reads the result again and compares it with the changed value: a text that can be written in many
ways is never trusted to have been understood. Pure.
"""
