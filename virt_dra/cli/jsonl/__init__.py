"""The filters: commands that read one JSON object per line and write one answer per line, in order.

Must not decide: each command wires one function of the packages below.
"""
