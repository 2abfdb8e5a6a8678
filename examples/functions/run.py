"""Runs functions as jobs and waits for them: python run.py CLUSTER."""

import sys
from concurrent.futures import as_completed

from pi import share

import corral

cluster = corral.open(sys.argv[1])

# One call as one job.
first = cluster.submit(share, 0, time="5m")
print("job", first.id, "returned", first.result())

# One array with a part for each seed, two of them at once.
futures = cluster.map(share, range(1, 5), at_once=2, time="5m")
shares = [future.result() for future in as_completed(futures)]
print(f"pi is about {4 * sum(shares) / len(shares):.2f}")
