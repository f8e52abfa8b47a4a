"""Random VMIs, hostile ones among them, and what must hold of their domains whatever is in them.

``python -m devtools.domains N [--seed S]`` converts N of them (:mod:`devtools.domains.judging`).
"""
