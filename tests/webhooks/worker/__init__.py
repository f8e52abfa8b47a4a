"""The process that evaluates selectors: its turns, its wire, attacks."""
