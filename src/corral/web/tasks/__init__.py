"""Work that takes long, next to the event loop."""
