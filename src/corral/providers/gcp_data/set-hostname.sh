#!/bin/bash
# Enroot takes the name of the container's host from this file.
hostname | tee /etc/hostname
