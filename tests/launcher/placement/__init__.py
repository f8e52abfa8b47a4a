"""Tests of the placement of devices."""
