"""``virt-dra domain-xml`` with files: domains, documents, differences, and inputs that it refuses."""
