"""Shared by several commands: the console, options, output, exit codes.

Must not import a command.
"""
