"""What an API server refuses."""
