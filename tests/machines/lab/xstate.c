/* Makes user-mode-linux 6.1 work on a CPU with a larger register state than it knows (AMX: 11 KiB).
 *
 * It keeps the first 2.6 KiB of what PTRACE_GETREGSET returns. PTRACE_SETREGSET takes the complete
 * state or nothing (arch/x86/kernel/fpu/regset.c: count must equal the state's size, else EFAULT), so
 * that "ptrace set fp regs failed, errno = 14" ends in a panic as init starts. Here the part that it
 * keeps is copied over the state that is there, and the result is set. What follows it is AMX's
 * tiles, which no machine of a lab uses.
 *
 * Preloaded by labs.py, where /proc/cpuinfo has amx_tile.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static long (*next)(int, ...);
/* Not on the stack: a kernel stack of user-mode-linux has 16 KiB. It has one CPU, hence one user. */
static char state[65536];

__attribute__((constructor)) static void find_next(void) {
  next = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
}

long ptrace(enum __ptrace_request request, ...) {
  va_list list;
  va_start(list, request);
  int pid = va_arg(list, int);
  void *address = va_arg(list, void *);
  void *data = va_arg(list, void *);
  va_end(list);
  if (request == PTRACE_SETREGSET && (long)address == NT_X86_XSTATE) {
    struct iovec *part = data, all = {state, sizeof state};
    if (next(PTRACE_GETREGSET, pid, address, &all) == 0 && part->iov_len < all.iov_len) {
      memcpy(state, part->iov_base, part->iov_len);
      return next(request, pid, address, &all);
    }
  }
  return next(request, pid, address, data);
}
