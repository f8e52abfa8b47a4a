"""The documentation as a site (``make site``): pages of the repository, a reference made of the code, and what holds
them to be right.

* :mod:`.contents`: which pages there are, in which order
* :mod:`.reference`: pages made of the code: commands, findings, metrics, CRDs, library
* :mod:`.staging`: all of it as one folder of Markdown, in which links to source files lead to pages with these files
* :mod:`.building`: that folder as HTML, by Sphinx; a warning is an error
* :mod:`.diagrams`: the documents' pictures, drawn from text
* :mod:`.recording`: the terminal that the README shows
* :mod:`.checking`: the HTML's links, and that it loads nothing from elsewhere
"""
