"""From a VMI and its devices to domain XML; ``golden/`` holds the XML."""
