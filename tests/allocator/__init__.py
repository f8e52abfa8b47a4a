"""The allocator: rules as cases (``cases/``), properties over random problems, and limits of what it may take."""
