"""What several commands share: the console, options, output, exits, deadlines.

Must not import a command.
"""
