"""Why a pod can't go to nodes: one ``tree`` of refusals, made by ``judging``: node, filter, request, device, and the
term of the selector that is false, each with a reason of docs/reasons. ``groups``, ``condition``, ``listing`` and
``document`` say it and decide nothing. kube-scheduler's own line is :mod:`virt_dra.scheduling.framework.messages`.
Pure."""
