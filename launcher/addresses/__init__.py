"""The sources of host addresses: status of claims, metadata files, environment variables of device plugins (K-7.1 to
K-7.13).

Must not write XML.
"""
