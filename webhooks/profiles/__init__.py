"""The webhook for new VMIs that ask for devices by a line of profiles: writes the line out, or refuses it (P-9). Pure.

Must not import an I/O library, a clock or the server, and asks :mod:`virt_dra.api.profiles` what a line stands for.
"""
