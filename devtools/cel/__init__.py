"""CEL for witnesses: the cases' questions, our answers as the Go witness writes them, and a search for expressions that
take long."""
