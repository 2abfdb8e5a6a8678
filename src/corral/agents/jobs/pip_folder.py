# Installed as: nowhere: an argument of python3 -c, sent in front of pip's own arguments
# Started by: corral (jobs/batch/environment), which makes the environment of a lock, where the
# controller has no pip
# Runs as: the job's user
"""Runs pip out of a folder: FOLDER [PIP'S ARGUMENTS...].

pip before 23.1.2 (Debian 12 has 23.0.1) names pkgutil.ImpImporter, which Python 3.12 has removed;
any class does for what it is used for.
"""

import pkgutil
import runpy
import sys

sys.path.insert(0, sys.argv.pop(1))
if not hasattr(pkgutil, "ImpImporter"):
    pkgutil.ImpImporter = type("ImpImporter", (), {})
runpy.run_module("pip", run_name="__main__", alter_sys=True)
