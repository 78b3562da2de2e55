# Zigzag varints, as in record batches.

from libc.stdint cimport int64_t, uint64_t, uint8_t


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline Py_ssize_t varint_size(int64_t value) noexcept nogil:
    cdef uint64_t left = zigzag(value)
    cdef Py_ssize_t size = 1
    while left >= 0x80:
        left >>= 7
        size += 1
    return size


cdef inline uint8_t* write_varint(uint8_t* to, int64_t value) noexcept nogil:
    cdef uint64_t left = zigzag(value)
    while left >= 0x80:
        to[0] = <uint8_t>(left | 0x80)
        left >>= 7
        to += 1
    to[0] = <uint8_t>left
    return to + 1


cdef inline const uint8_t* read_varint(const uint8_t* source, int64_t* value) noexcept nogil:
    # Only for bytes that this package has written: nothing is checked.
    cdef uint64_t raw = 0
    cdef int shift = 0
    while source[0] & 0x80:
        raw |= <uint64_t>(source[0] & 0x7F) << shift
        shift += 7
        source += 1
    raw |= <uint64_t>source[0] << shift
    value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
    return source + 1
