"""Simulated clouds: made from the providers' documents, and checked against them."""

from importlib import import_module

from corral.spec.providers import PROVIDERS
from corral.testing.clouds.faults import Fault, Faults
from corral.testing.clouds.transport import InProcess
from corral.testing.clouds.wire import Answer, Request
from corral.testing.clouds.world import Machine, Sim

SIMS: dict[str, type[Sim]] = {
    one.name: import_module(f"{__name__}.{one.folder}").SIM
    for one in PROVIDERS.values()
    if one.rental
}
"""By the provider's word: the module of each is named as the provider's folder."""

__all__ = ["SIMS", "Answer", "Fault", "Faults", "InProcess", "Machine", "Request", "Sim"]
