"""Why a pod can't go to nodes: one tree of refusals, and renderers that say it. Pure.

``judging`` asks a fit and makes the tree (``tree``): node, filter, request, device, and the term of the selector that
is false, each with a reason that has a page in docs/reasons; ``distance`` ranks the reasons. Renderers decide nothing:
``groups`` gathers nodes that are refused alike, the nearest first, and says a group in a sentence, ``condition`` is the
operator's message, ``listing`` has a line for every refusal, ``document`` the JSON. kube-scheduler's own line is
:mod:`virt_dra.scheduling.framework.messages`.
"""
