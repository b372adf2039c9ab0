"""The torch engine: its process, and the client that workers hold."""
