"""The verb mesh."""
