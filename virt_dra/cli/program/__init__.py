"""Commands about the program itself: its help, its version, the user's own defaults."""
