"""``virt-dra top``: a terminal view of a cluster's VMs, its devices by node, and what waits and why.

contents   what is shown, made of objects (pure), as the document in which the making process sends it, and as text
making     the making process's function; it runs in the sandbox that follows a cluster for the live report, too
app        the terminal; it evaluates nothing of objects
"""
