"""``virt-dra domain-xml``: the libvirt domains of VMs in files, validated, or compared with other domains."""
