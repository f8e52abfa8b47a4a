"""The kubelet's protocol: registration, DRAPlugin and health over gRPC on Unix sockets (D-1 to D-20, D-37, D-56 to
D-58). ``service`` has the ports that it serves; it decides nothing about devices."""
