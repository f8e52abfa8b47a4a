"""Tests, in rooms that mirror the product's. What they share with ``bench`` and ``make cluster`` is in
:mod:`devtools`."""
