"""Jobs: batch scripts, submit, follow."""
