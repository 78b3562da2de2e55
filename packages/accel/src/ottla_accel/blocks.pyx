"""Blocks of memory that completed batches had, kept for the next ones. `blocks.pxd` says where blocks come from."""

import os

from libc.stdint cimport uint8_t
from libc.string cimport memcpy, memmove, memset

from ottla_accel.locks cimport Mutex, lock, unlock

cdef struct Kept:
    uint8_t* at
    Py_ssize_t capacity

cdef Py_ssize_t MIN_KEPT_BYTES = 32 * 1024  # the C library reuses smaller ones itself
cdef Py_ssize_t MAX_KEPT_BYTES = 16 * 1024 * 1024
cdef enum: MAX_KEPT_BLOCKS = 32
cdef Py_ssize_t GROWTH_TO_KEPT = 8  # how many times as much memory as it needs a growing batch takes of what is kept
cdef Mutex mutex  # of all that follows
cdef Kept kept[MAX_KEPT_BLOCKS]  # memory of the whole process, the longest unused first
cdef Py_ssize_t kept_blocks = 0, kept_bytes = 0
cdef Py_ssize_t used_bytes = 0, most_used_bytes = 0  # of blocks of this size that batches have, now and at the most


def release_in_child():
    """Release the mutex in a forked child: no thread there holds it.

    Without the GIL, a mutex that was held for a millisecond is handed to a thread that waits for it, and `os.fork` does
    not wait for a thread that waits. In the parent that thread has changed nothing yet.
    """
    memset(&mutex, 0, sizeof(mutex))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=release_in_child)


cdef inline Py_ssize_t counted(Py_ssize_t capacity) noexcept:
    return capacity if capacity >= MIN_KEPT_BYTES else 0


cdef void count_use(Py_ssize_t before, Py_ssize_t after) noexcept:
    """Note that a batch has a block of *after* bytes in place of *before*.

    Kept memory is memory that batches had before. If batches need more now than all of it, some kept memory is freed:
    so batches and kept memory together take hardly more than batches alone once did, which `buffer.memory` limits.
    A batch grows to an eighth of a kept block before it takes it (`take_larger`), and until then the block is kept.
    """
    if counted(before) == counted(after):
        return
    lock(&mutex)
    count_use_locked(before, after)
    unlock(&mutex)


cdef void count_use_locked(Py_ssize_t before, Py_ssize_t after) noexcept:
    """`count_use`, for the holder of the mutex."""
    global used_bytes, most_used_bytes
    used_bytes += counted(after) - counted(before)
    most_used_bytes = max(most_used_bytes, used_bytes)
    while kept_blocks and used_bytes + kept_bytes > most_used_bytes + kept[kept_blocks - 1].capacity // GROWTH_TO_KEPT:
        free_block(kept[0].at, kept[0].capacity)  # the longest unused block
        forget_kept(0)


cdef void forget_kept(Py_ssize_t place) noexcept:
    """Remove a block from `kept`, because it was taken or freed. For the holder of the mutex."""
    global kept_blocks, kept_bytes
    kept_blocks -= 1
    kept_bytes -= kept[place].capacity
    memmove(&kept[place], &kept[place + 1], (kept_blocks - place) * sizeof(Kept))


cdef void keep(uint8_t* at, Py_ssize_t capacity) noexcept:
    """Keep this memory for the next batch, or free it.

    The system would zero each page of new memory, which takes longer than writing to it.
    """
    global kept_blocks, kept_bytes, used_bytes
    if capacity < MIN_KEPT_BYTES:
        free_block(at, capacity)
        return
    lock(&mutex)
    used_bytes -= capacity
    if capacity > MAX_KEPT_BYTES:
        unlock(&mutex)
        free_block(at, capacity)
        return
    while kept_blocks == MAX_KEPT_BLOCKS or kept_bytes + capacity > MAX_KEPT_BYTES:
        free_block(kept[0].at, kept[0].capacity)  # the longest unused block
        forget_kept(0)
    kept[kept_blocks].at, kept[kept_blocks].capacity = at, capacity
    kept_blocks += 1
    kept_bytes += capacity
    unlock(&mutex)


cdef uint8_t* take_kept(Py_ssize_t min_bytes, Py_ssize_t max_bytes, Py_ssize_t* capacity) noexcept:
    """Return kept memory of a completed batch, between *min_bytes* and *max_bytes*, or NULL."""
    cdef Py_ssize_t place
    cdef uint8_t* found = NULL
    lock(&mutex)
    for place in range(kept_blocks - 1, -1, -1):
        if min_bytes <= kept[place].capacity <= max_bytes:
            found, capacity[0] = kept[place].at, kept[place].capacity
            forget_kept(place)
            count_use_locked(0, capacity[0])
            break
    unlock(&mutex)
    return found


cdef uint8_t* take_larger(Py_ssize_t size, Py_ssize_t* capacity) noexcept:
    """Return kept memory of at least *size* bytes for a growing batch, or NULL."""
    return take_kept(size, GROWTH_TO_KEPT * size, capacity) if size >= MIN_KEPT_BYTES else NULL


cdef uint8_t* resized(uint8_t* at, Py_ssize_t before, Py_ssize_t after) noexcept:
    """Return a block of *after* bytes with what fits of the content, in place of *at*, which may be NULL.

    If there is no memory, return NULL, and *at* is as before.
    """
    cdef uint8_t* moved
    if is_mapped(before) and is_mapped(after):
        return <uint8_t*>remap_block(at, before, after)
    if not is_mapped(before) and not is_mapped(after):
        return <uint8_t*>PyMem_Realloc(at, max(after, 1))
    moved = new_block(after)
    if moved is not NULL and at is not NULL:
        memcpy(moved, at, min(before, after))
        free_block(at, before)
    return moved
