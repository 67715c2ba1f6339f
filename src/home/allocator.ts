/**
 * The environment in which the daemon and its engines start, for the allocator of glibc.
 *
 * By default each thread has an arena. What it frees stays there, and the compiler threads of V8
 * leave much. With one arena for all, the process keeps less after its work. It needs no more CPU.
 * Other allocators ignore the variable.
 */
export const ALLOCATOR: Readonly<Record<string, string>> = { MALLOC_ARENA_MAX: '1' };
