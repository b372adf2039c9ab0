"""Millstream serves language-model token streams."""
