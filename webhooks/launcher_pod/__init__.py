"""The webhook for launcher pods: what a pod needs for its devices' integration path, and when it is refused (K-11). Pure.

Must not know which devices a claim will get.
"""
