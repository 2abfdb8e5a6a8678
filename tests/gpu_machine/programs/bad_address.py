"""A kernel that writes to an address that is not its own: the driver reports Xid 31.

Standard library and libcuda alone: it runs with a node's own Python.
"""

import ctypes
import sys

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 where)
{
  .reg .u64 %a;
  ld.param.u64 %a, [where];
  st.global.u32 [%a], 1;
  ret;
}
\0"""

cuda = ctypes.CDLL("libcuda.so.1")


def call(name: str, *args: object) -> None:
    status = getattr(cuda, name)(*args)
    if status:
        sys.exit(f"{name}: CUDA error {status}")


device, context = ctypes.c_int(), ctypes.c_void_p()
module, function = ctypes.c_void_p(), ctypes.c_void_p()
address = ctypes.c_uint64(0x10)
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuModuleLoadData", ctypes.byref(module), PTX)
call("cuModuleGetFunction", ctypes.byref(function), module, b"store")
values = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(address), ctypes.c_void_p))
call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, values, None)
call("cuCtxSynchronize")
