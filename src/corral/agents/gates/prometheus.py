# Installed as: nowhere: it is an argument of python3 -c on the controller
# Started by: corral (roles/services/metrics), until it succeeds
# Runs as: root
"""Exit status 0 once Prometheus has read each exporter of the cluster: PORT [ADDRESS...].

Those of machines at the addresses are not waited for.

Prints the exporters that it could not read, with Prometheus' own error.
"""

import json
import signal
import sys
import urllib.request
from urllib.parse import urlsplit

signal.alarm(10)  # for all of it: urlopen's timeout is that of each read
uri = f"http://127.0.0.1:{sys.argv[1]}/api/v1/targets"
with urllib.request.urlopen(uri, timeout=5) as answer:
    active = json.load(answer)["data"]["activeTargets"]
ours = [target for target in active if target["labels"]["job"] in ("corral", "node")]
waited = [each for each in ours if urlsplit(str(each["scrapeUrl"])).hostname not in sys.argv[2:]]
down = [target for target in waited if target["health"] != "up"]
for target in down:
    print(target["scrapeUrl"], target["lastError"])
sys.exit(not ours or bool(down))
