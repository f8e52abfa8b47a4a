"""``virt-dra release``: asks the keeper to release the devices that a stopped VM keeps."""
