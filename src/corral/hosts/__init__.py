"""How a machine is reached and read: quoting, transports, fleet, facts."""
