"""What an installation of virt-dra is: its objects, their order, what an upgrade or a removal changes, and whether it may go ahead.

Must not print or know the command line.
"""
