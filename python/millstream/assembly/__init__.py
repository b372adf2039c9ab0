"""From settings to parts: one file for each kind of part that `millstream.app` puts together."""
