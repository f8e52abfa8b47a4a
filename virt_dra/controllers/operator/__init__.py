"""The operator's loop: which VMIs a change concerns, their turns, and why their pods wait.

Must not write objects itself: a mode's reconcile does.
"""
