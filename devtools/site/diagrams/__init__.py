"""The documents' diagrams: boxes on a grid and arrows between them, from a YAML file to an SVG file beside it.

``python -m devtools.site.diagrams`` draws docs/diagrams/*.yaml; a test holds the files together. Our own code, because
its output depends on nothing that is installed (graphviz gives another picture with each version and font), and its
colors follow light and dark.

* :mod:`.drawing`: what a file may hold, and the checks of it
* :mod:`.layout`: where boxes, groups, arrows and labels are
* :mod:`.svg`: the picture
"""
