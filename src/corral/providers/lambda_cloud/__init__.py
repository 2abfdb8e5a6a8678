"""Lambda Cloud: instances, one a call. Its calls, its errors as data, its client."""
