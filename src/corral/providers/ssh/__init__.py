"""Provider ssh: machines that exist already and belong to the user."""
