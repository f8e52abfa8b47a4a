"""The webhook server under hostile load: a server on loopback, reviews by the thousand, selectors that take long,
attacks measured."""
