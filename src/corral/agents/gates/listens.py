# Installed as: nowhere: it is an argument of python3 -c on the controller
# Started by: corral (roles/services/page), until it succeeds
# Runs as: root
"""Exit status 0 once a port accepts connections: ADDRESS PORT."""

import socket
import sys

socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).close()
