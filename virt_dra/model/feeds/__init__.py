"""What a model's objects imply: nodes that slices name, labels that every node has."""
