#!/bin/sh
# A function for whether a folder's file system is read-only. POSIX sh.
#
# Installed as: part of the programs that include it; else nowhere: sent in front of a call
# (inspect/rules, inspect/storage)
# Started by: nobody, it defines a function
# Runs as: root

# folder_read_only FOLDER: access(2) refuses root on a read-only file system, and nowhere else.
folder_read_only() { [ -d "$1" ] && [ ! -w "$1" ]; }
