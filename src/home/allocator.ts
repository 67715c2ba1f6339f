/**
 * The environment in which engines start, for the allocator of glibc.
 *
 * By default each thread has an arena. Freed memory stays there, and the compiler threads of V8
 * free much. With one arena for all, the process keeps less after its work. It needs no more CPU.
 * Other allocators ignore the variable.
 */
export const ALLOCATOR: Readonly<Record<string, string>> = { MALLOC_ARENA_MAX: '1' };

/**
 * That of the daemon, in bytes. By default glibc raises both thresholds with use: its heap keeps
 * 10 MiB of free memory after a start, and 50 MiB after 10,000 runs. Now the free end of the heap
 * returns to the system, and so does each larger block, such as a buffer of a socket. An engine
 * frees such blocks with each token, so it has the default.
 */
export const DAEMON_ALLOCATOR: Readonly<Record<string, string>> = {
  ...ALLOCATOR,
  MALLOC_TRIM_THRESHOLD_: '131072',
  MALLOC_MMAP_THRESHOLD_: '32768',
};
