"""What the driver must remember over crashes and reboots: ``records`` has the types, the checkpoint file keeps them
(D-50 to D-52)."""
