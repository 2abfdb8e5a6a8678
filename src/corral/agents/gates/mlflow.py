# Installed as: nowhere: it is an argument of python3 -c on the controller
# Started by: corral (roles/services/mlflow, api/operations/restore), until it succeeds
# Runs as: root
"""Exit status 0 once MLflow's server reports that it is healthy: URI."""

import signal
import sys
import urllib.request

signal.alarm(10)  # for all of it: urlopen's timeout is that of each read
with urllib.request.urlopen(f"{sys.argv[1]}/health", timeout=5) as answer:  # noqa: S310 - Corral's own
    sys.exit(answer.read() != b"OK")
