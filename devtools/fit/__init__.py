"""Random clusters and random VMs or pods that want a node there, and every part of the house that says whether they can
have one: all must say the same.

``clusters`` and ``askers`` make a :class:`.case.FitCase`, to which ``variations`` adds; ``surfaces`` is the table of
those who are asked, ``answers`` what they say; ``comparing`` finds who disagrees with the scheduler, and
``kube_scheduler`` asks the real one.
"""
