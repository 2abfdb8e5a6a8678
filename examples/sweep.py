"""Three single-GPU jobs at once: one per learning rate, each with its own GPU.

    python3 examples/sweep.py                             # with `pip install corral`
    corral run examples/train_digits.py -G 1 --sweep lr=1e-3,3e-3,1e-2     # the same by command

Submits the jobs, waits for all of them and prints which learning rate was best. Ends with status 1
when one of them failed. The cluster is the one brought up from here, or CORRAL_CLUSTER.
"""

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import corral

SCRIPT = Path(__file__).with_name("train_digits.py")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cluster", default=os.environ.get("CORRAL_CLUSTER", ""))
    parser.add_argument("--rates", default="1e-3,3e-3,1e-2")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--script", default=str(SCRIPT), help="what each job runs")
    parser.add_argument("--gpus", type=int, default=1, help="GPUs of each job")
    return parser.parse_args()


def result_of(lines: list[str]) -> dict[str, object]:
    """What the script reports in its last RESULT line."""
    results = [line.removeprefix("RESULT ") for line in lines if line.startswith("RESULT ")]
    return json.loads(results[-1]) if results else {}


def main() -> int:
    options = arguments()
    known = corral.known_clusters()
    name = options.cluster or (known[0] if len(known) == 1 else "")
    if not name:
        sys.exit(f"name a cluster: --cluster NAME or FILE; brought up from here: {known}")
    cluster = corral.open(name)
    rates = options.rates.split(",")
    # All are submitted before any is waited for: Slurm runs as many at once as there are GPUs.
    jobs = [
        cluster.submit(
            options.script,
            name=f"sweep-{rate}",
            folder="none",
            gpus_per_node=options.gpus,
            args=("--lr", rate, "--epochs", str(options.epochs), "--min-accuracy", "0"),
        )
        for rate in rates
    ]
    known_as = [f"{job.id} (lr {rate})" for job, rate in zip(jobs, rates, strict=True)]
    print(f"submitted: {', '.join(known_as)}")
    with ThreadPoolExecutor(len(jobs)) as pool:
        outcomes = list(pool.map(lambda job: job.wait(), jobs))
    scores: dict[str, float] = {}
    for rate, job, outcome in zip(rates, jobs, outcomes, strict=True):
        lines = [line.text for line in job.logs()]
        if not outcome.good:
            print(f"lr {rate}: job {job.id} failed:", *lines[-5:], sep="\n  ", file=sys.stderr)
            continue
        scores[rate] = float(result_of(lines)["accuracy"])
        print(f"lr {rate}: accuracy {scores[rate]:.4f}, job {job.id} on {outcome.nodes}")
    if len(scores) < len(rates):
        return 1
    best = max(scores, key=lambda rate: scores[rate])
    print(f"RESULT {json.dumps({'best': best, 'accuracy': scores[best], 'jobs': len(jobs)})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
