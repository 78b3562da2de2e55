"""The hash that Java's producer uses for keys."""

from libc.stdint cimport uint32_t, uint8_t
from libc.string cimport memcpy

cdef uint32_t SEED = 0x9747B28C
cdef uint32_t MULTIPLIER = 0x5BD1E995


cdef uint32_t hash_of(const uint8_t* data, Py_ssize_t size) noexcept nogil:
    cdef uint32_t hashed = SEED ^ <uint32_t>size
    cdef uint32_t word
    cdef Py_ssize_t position = 0
    while position + 4 <= size:
        memcpy(&word, data + position, 4)  # little-endian, like all machines that wheels are built for
        word *= MULTIPLIER
        word ^= word >> 24
        hashed = hashed * MULTIPLIER ^ word * MULTIPLIER
        position += 4
    if position < size:
        word = data[position]
        if position + 1 < size:
            word |= <uint32_t>data[position + 1] << 8
        if position + 2 < size:
            word |= <uint32_t>data[position + 2] << 16
        hashed = (hashed ^ word) * MULTIPLIER
    hashed = (hashed ^ hashed >> 13) * MULTIPLIER
    return hashed ^ hashed >> 15


def murmur2(data not None):
    """Return the hash of bytes, as an unsigned 32-bit number."""
    cdef const uint8_t[::1] view = data
    return hash_of(&view[0] if view.shape[0] else NULL, view.shape[0])
