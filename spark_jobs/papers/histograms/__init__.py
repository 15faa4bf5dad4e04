"""Histogram methods that a request names; ``mechanisms.histograms`` has those that every release runs on."""
