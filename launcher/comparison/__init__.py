"""The facts of a domain about host devices and their placement, and how two domains differ in them. Pure."""
