"""The syntax of CEL: tokens, the tree, the parser (L-1).

Must not know types, functions or devices.
"""
