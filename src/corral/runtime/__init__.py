"""This process: blocking calls in threads that nobody waits for, and dumps of stacks."""
