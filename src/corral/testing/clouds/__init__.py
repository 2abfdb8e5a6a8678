"""Simulated clouds: made from the providers' documents, and checked against them."""

from importlib import import_module

from corral.spec.providers import PROVIDERS
from corral.testing.clouds.transport import InProcess
from corral.testing.clouds.wire import Answer, Request
from corral.testing.clouds.world import Fault, Faults, Machine, Sim

SIMS: dict[str, type[Sim]] = {
    provider.name: import_module(f"{__name__}.{provider.folder}").SIM
    for provider in PROVIDERS.values()
    if provider.rental
}
"""By the provider's word: the module of each is named as the provider's folder."""

BOOT_S = 2.0
"""Seconds until a machine of a rehearsed cluster has booted."""

__all__ = ["BOOT_S", "SIMS", "Answer", "Fault", "Faults", "InProcess", "Machine", "Request", "Sim"]
