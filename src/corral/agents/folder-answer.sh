#!/bin/sh
# A function for whether the file system of a folder answers. POSIX sh.
#
# Installed as: part of the programs that include it; else nowhere: sent in front of a call (inspect/storage)
# Started by: nobody, it defines a function
# Runs as: who runs the program

# folder_answer FOLDER SECONDS: the kind of its file system, or why there is none, and "failed". statfs(2) asks an NFS
# server each time; stat(2) may be answered from the client's cache. SIGKILL: nothing else ends a process that
# waits for an NFS server (mount option hard).
folder_answer() (
  answer=$(timeout -s KILL "$2" stat -f -c %T "$1" 2>&1)
  case $? in
    0) ;;
    137) answer="no answer within $2 s, failed" ;;
    *) answer="$answer failed" ;;
  esac
  printf '%s\n' "$answer"
)
