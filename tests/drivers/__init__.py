"""Tests of the three drivers: one body for all, and what is particular to each."""
