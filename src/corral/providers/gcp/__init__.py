"""A3 Mega clusters on Google Cloud, which Google's Cluster Toolkit makes and Corral drives."""
