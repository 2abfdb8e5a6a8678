"""Simulated clouds: made from the providers' documents, and checked against them."""

from corral.testing.clouds.faults import Fault, Faults
from corral.testing.clouds.lambda_sim import LambdaSim
from corral.testing.clouds.paperspace_sim import PaperspaceSim
from corral.testing.clouds.runpod_sim import RunPodSim
from corral.testing.clouds.transport import InProcess
from corral.testing.clouds.wire import Answer, Request
from corral.testing.clouds.world import Machine, Sim

SIMS = {sim.name: sim for sim in (LambdaSim, RunPodSim, PaperspaceSim)}

__all__ = [
    "SIMS",
    "Answer",
    "Fault",
    "Faults",
    "InProcess",
    "LambdaSim",
    "Machine",
    "PaperspaceSim",
    "Request",
    "RunPodSim",
    "Sim",
]
