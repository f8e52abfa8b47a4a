"""The Go and C++ witnesses, asked a sample; ``make conformance`` asks more."""
