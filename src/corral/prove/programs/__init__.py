"""Programs that run on nodes, under the nodes' own Python and PyTorch; sent there as text."""
