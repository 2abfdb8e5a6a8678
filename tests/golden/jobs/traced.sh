"$corral_job/lib/traced.py"
