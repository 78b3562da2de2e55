# Blocks of memory for the records of a batch: where they come from, and which are kept for later batches.
#
# A large block is mapped by itself, so the system has its memory again when it is freed. The C library would do so, too,
# but from the first large block that is freed on it takes others of that size from its heap. There, blocks of many sizes
# leave gaps between each other that no other block fits into: up to 24 MiB with a `buffer.memory` of 128 MiB.
#
# The sanitizers see only memory of the C library, and other systems than Linux cannot resize what is mapped.

from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport uint8_t

cdef extern from *:
    """
    #if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
    #include <sys/mman.h>
    #define OTTLA_MAPS 1
    static void* ottla_map(size_t size) {
        void* at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return at == MAP_FAILED ? NULL : at;
    }
    static void* ottla_remap(void* at, size_t before, size_t after) {
        void* moved = mremap(at, before, after, MREMAP_MAYMOVE);
        return moved == MAP_FAILED ? NULL : moved;
    }
    static void ottla_unmap(void* at, size_t size) { munmap(at, size); }
    #else
    #define OTTLA_MAPS 0
    static void* ottla_map(size_t size) { (void)size; return NULL; }
    static void* ottla_remap(void* at, size_t before, size_t after) {
        (void)at; (void)before; (void)after; return NULL;
    }
    static void ottla_unmap(void* at, size_t size) { (void)at; (void)size; }
    #endif
    """
    const bint MAPS "OTTLA_MAPS"
    void* map_block "ottla_map"(size_t size) noexcept nogil
    void* remap_block "ottla_remap"(void* at, size_t before, size_t after) noexcept nogil
    void unmap_block "ottla_unmap"(void* at, size_t size) noexcept nogil


cdef enum:
    MAPPED_FROM = 128 * 1024  # bytes, as in the C library before the first such block is freed


cdef inline bint is_mapped(Py_ssize_t capacity) noexcept:
    return MAPS and capacity >= MAPPED_FROM


cdef inline uint8_t* new_block(Py_ssize_t capacity) noexcept:
    # Return NULL if there is no memory.
    return <uint8_t*>(map_block(capacity) if is_mapped(capacity) else PyMem_Malloc(max(capacity, 1)))


cdef inline void free_block(uint8_t* at, Py_ssize_t capacity) noexcept:
    if at is NULL:
        return
    if is_mapped(capacity):
        unmap_block(at, capacity)
    else:
        PyMem_Free(at)


cdef uint8_t* resized(uint8_t* at, Py_ssize_t before, Py_ssize_t after) noexcept
cdef void count_use(Py_ssize_t before, Py_ssize_t after) noexcept
cdef void keep(uint8_t* at, Py_ssize_t capacity) noexcept
cdef uint8_t* take_kept(Py_ssize_t min_bytes, Py_ssize_t max_bytes, Py_ssize_t* capacity) noexcept
cdef uint8_t* take_larger(Py_ssize_t size, Py_ssize_t* capacity) noexcept
