"""The operator's loop: which VMIs a change concerns, their turns, and why their pods wait. A mode's reconcile
writes."""
