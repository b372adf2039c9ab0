"""OpenAI's Responses API on the stream log."""
