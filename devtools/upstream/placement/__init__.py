"""KubeVirt's launcher as a witness of NUMA placement and pinning (K-8): a program around its Go packages, and the
recorder of its answers."""
