"""The filters that answer JSON lines: ``admit``, ``device-status``, ``domain-xml``, ``render``."""
