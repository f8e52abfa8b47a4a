"""Speed and memory, measured against peers: ``make bench`` prints tables. It imports nothing of tests."""
