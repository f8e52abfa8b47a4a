"""The documentation's site: what it is made of, and that nothing in it is broken."""
