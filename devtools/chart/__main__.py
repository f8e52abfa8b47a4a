"""``python -m devtools.chart``: writes the chart."""

from devtools.chart.files import write

write()
