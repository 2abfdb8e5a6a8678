"$job/lib/traced.py"
