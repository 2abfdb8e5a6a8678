"""How a machine is reached: quoting, framing, transports, SSH keys, the fleet."""
