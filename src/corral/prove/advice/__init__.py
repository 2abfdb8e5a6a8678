"""What a training run would take and cost on what clouds have on sale."""
