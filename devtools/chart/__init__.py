"""``python -m devtools.chart``: writes the Helm chart in ``chart/virt-dra`` from the manifests, by what
``virt-dra install`` makes of them (decision 0025).

A test compares the two: run this after any change of a manifest. The chart's files ``.tpl`` and ``.txt`` are written by
hand.
"""
