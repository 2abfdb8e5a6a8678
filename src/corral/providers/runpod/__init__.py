"""RunPod, pods and Instant Clusters: calls, errors as data, offers and client."""
