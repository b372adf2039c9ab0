"""Where streams outlive their connections: in this worker's memory, or in Valkey."""
