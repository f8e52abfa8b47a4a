"""A real API server as the witness for the embedded cluster: scenarios, recording its answers, replaying them. See
README.md."""
