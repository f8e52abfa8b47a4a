"""The syntax of CEL: tokens, the tree, the parser (L-1). Nodes have places for what the checker finds out: types and
overloads.

Must not implement a function, evaluate anything, or know devices.
"""
