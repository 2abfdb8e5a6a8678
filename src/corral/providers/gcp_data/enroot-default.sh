#!/bin/bash
# No local SSD here: Enroot's own defaults, below the user's home and /run.
rm -f /etc/enroot/enroot.conf
