"""The filters: commands that read one JSON object a line and answer one a line, in order.

Must not decide: each wires one function of the packages below.
"""
