"""What a machine can hold: resources with a probe and a pure diff."""
