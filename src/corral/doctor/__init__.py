"""What is broken, why, and what to do: the failure catalogue as data, and who reads it."""
