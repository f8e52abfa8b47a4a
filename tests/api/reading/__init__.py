"""From text to objects and back: YAML, JSON, documents."""
