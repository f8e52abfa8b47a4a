"""Device profiles: what a VM's line ``virt-dra.io/devices`` asks for, and the entries and claims that it stands for."""
