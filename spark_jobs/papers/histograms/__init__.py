"""Histogram methods that a request selects by name; the default ones are in ``mechanisms.histograms``."""
