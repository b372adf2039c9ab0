"""Routes and HTTP shapes; the only place that knows status codes."""
