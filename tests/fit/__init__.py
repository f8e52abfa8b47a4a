"""Whether a pod fits: everyone who is asked gives one answer."""
