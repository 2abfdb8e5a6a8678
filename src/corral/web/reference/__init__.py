"""Pages of reference of what the page's server and the exporters offer."""
