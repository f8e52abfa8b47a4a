"""The pytest plugin: its fixtures in test suites of users, played by pytester, and the normal form of XML."""
