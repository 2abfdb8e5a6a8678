"""Several clusters in one page: what this one shows to the pages of others, and which those are."""
