"""The command line as users meet it: output, exit codes, endings."""
