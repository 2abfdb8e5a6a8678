"""The checks of a proof."""
