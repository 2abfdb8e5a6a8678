"""Provider ssh: machines that are there already and belong to the user."""
