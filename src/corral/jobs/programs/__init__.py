"""Programs that go along with a job and run on nodes, under their Python."""
