"""RunPod: pods and Instant Clusters. Its calls, its errors as data, its client."""
