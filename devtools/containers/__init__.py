"""The images of the Containerfile: built here without a registry or a daemon, read, and run in containerd as their pods
say.

``tools/image.sh`` (``make image``) gets the programs and builds. Needs root, as :mod:`.containerd` does; reading needs
nothing.
"""
