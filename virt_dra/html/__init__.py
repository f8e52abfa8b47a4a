"""One design for all HTML pages: tokens, layout, search, tables, the map of devices, and the policy that allows a
page's own style and script alone.

A page is a file that loads nothing, or the same page served live. Its tables and lists are HTML, made by commands; the
map is drawn by the page's script of data in it. Must not know what is shown.
"""
