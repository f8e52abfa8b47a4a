"""The command line: one module per subcommand. It wires and prints; it decides nothing."""
