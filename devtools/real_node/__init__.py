"""A real node: kubelet, containerd and runc, which run pods with devices that a DRA driver prepared.

:mod:`.configuration` makes their settings, :mod:`.here` runs them on this machine, in namespaces of their own;
``devtools.hardware_lab`` runs them in an emulated machine. ``tools/node.sh`` gets the programs. Needs root.
"""
