/* Counts what a process takes from malloc; preloaded by heap.py. One thread, glibc. */

#include <errno.h>
#include <malloc.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long allocated, live, peak, allocations;
static int counting;

static void *taken(void *block) {
    if (counting && block) {
        long size = (long)malloc_usable_size(block);
        allocated += size;
        live += size;
        allocations += 1;
        if (live > peak) peak = live;
    }
    return block;
}

static void given(void *block) {
    if (counting && block) live -= (long)malloc_usable_size(block);
}

void *malloc(size_t size) { return taken(__libc_malloc(size)); }

void *calloc(size_t count, size_t size) { return taken(__libc_calloc(count, size)); }

void *realloc(void *block, size_t size) {
    given(block);
    return taken(__libc_realloc(block, size));
}

void *memalign(size_t alignment, size_t size) { return taken(__libc_memalign(alignment, size)); }

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    *block = memalign(alignment, size);
    return *block ? 0 : ENOMEM;
}

void free(void *block) {
    given(block);
    __libc_free(block);
}

void heap_start(void) {
    allocated = live = peak = allocations = 0;
    counting = 1;
}

void heap_stop(long *figures) {
    counting = 0;
    figures[0] = allocated;
    figures[1] = peak;
    figures[2] = live;
    figures[3] = allocations;
}
