"""The verb ui."""
