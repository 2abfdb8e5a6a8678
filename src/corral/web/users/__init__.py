"""Who uses the page, and what runs with their rights."""
