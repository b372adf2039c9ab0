"""Engines: what turns a request into records."""
