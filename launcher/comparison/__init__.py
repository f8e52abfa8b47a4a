"""What a domain says of host devices and their placement, and how two domains differ in that. Pure."""
