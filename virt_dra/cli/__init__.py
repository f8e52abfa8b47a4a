"""The command line: one module per subcommand. It wires and prints; decisions are made by the packages that it
calls."""
