"""The use cases: the only door for the command line and the page.

Those that touch machines are async functions and send events to an ``Emit``; ``import corral``
exports them as synchronous functions. Their names are in ``__init__.pyi``, and loaded at first use,
so that ``corral plan`` does not pay for the checks of ``corral prove`` (0.1 s of imports).
"""

from corral.lazy import names_of_stub

__getattr__, __dir__ = names_of_stub(__name__, __file__)
