"""A mounted folder whose server is gone, as NFS leaves it: ``dead_mount.py PATH stale|silent``.

The kernel's own FUSE, spoken by hand: stale answers all with ESTALE, silent answers nothing after
the mount, so that every access waits until it is killed. Ends when the folder is unmounted.

Embedded nodes share a kernel without NFS, and FUSE programs (sshfs, libfuse's examples) are
packages that nodes do not have. Silent stops reading: a request that nobody fetched can still be
ended by SIGKILL, as one of an NFS mount can (TASK_KILLABLE); one that was fetched and not answered
could not. Locks, reconnecting and root_squash are NFS's own: tests/machines/test_storage.py has
real servers.
"""

import ctypes
import errno
import os
import signal
import struct
import sys

HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
ANSWER = struct.Struct("<IiQ")  # length, -errno, unique
INIT = struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, 0)
NO_ANSWER = {2, 36, 42}  # FORGET, INTERRUPT, BATCH_FORGET

path, kind = sys.argv[1:]
device = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"gone", path.encode(), b"fuse.gone", 0, options):
    sys.exit(os.strerror(ctypes.get_errno()))
unique = HEADER.unpack_from(os.read(device, 1 << 17))[2]
os.write(device, ANSWER.pack(ANSWER.size + len(INIT), 0, unique) + INIT)
print("mounted", flush=True)
while kind == "silent":
    signal.pause()  # what is asked stays in the queue, where a SIGKILL still ends its asker
while True:
    try:
        _, opcode, unique, *_ = HEADER.unpack_from(os.read(device, 1 << 17))
    except OSError as error:
        sys.exit(0 if error.errno == errno.ENODEV else str(error))
    if opcode not in NO_ANSWER:
        os.write(device, ANSWER.pack(ANSWER.size, -errno.ESTALE, unique))
