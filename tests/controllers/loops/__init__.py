"""The loops of the embedded cluster: claims, scheduler, device status, virtual machines."""
