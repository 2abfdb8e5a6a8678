"""Clusters on Google Cloud, which Google's Cluster Toolkit makes and Corral drives."""
