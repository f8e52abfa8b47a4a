"""What an attacker tries: injection, other namespaces, terminals, texts that take long."""
