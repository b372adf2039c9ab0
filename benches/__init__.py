"""Measurements: each module prints one table of ratios and keeps it in ``results/``."""
