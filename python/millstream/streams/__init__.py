"""Streams: from a log's records to a client's connection."""
