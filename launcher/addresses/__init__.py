"""Where the addresses of host devices come from: claims' status, metadata files, variables of device plugins (K-7.1 to K-7.13).

Must not write XML.
"""
