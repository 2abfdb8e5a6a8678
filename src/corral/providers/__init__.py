"""Where machines come from: one folder per provider, named by ``spec.providers.REGISTRY``."""
