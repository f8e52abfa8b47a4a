"""The embedded cluster; ``recorded/`` holds a real API server's answers."""
