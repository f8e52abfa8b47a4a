"""From a pod's claims to devices with addresses."""
