# Arrow's buffers, which other code may write to during a read: a bytearray, a mapped file, shared memory.
#
# A value that was read may be different at the next read. The size of a buffer is reliable, so one check suffices that
# it is large enough for the rows. A number is read once, into a local variable, by a volatile access, so that the
# compiler does not read it again after a check. Its address may be odd.

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uintptr_t

cdef extern from *:
    """
    #pragma pack(push, 1)
    typedef struct { int16_t it; } ottla_16;
    typedef struct { int32_t it; } ottla_32;
    typedef struct { int64_t it; } ottla_64;
    typedef struct { double it; } ottla_double;
    #pragma pack(pop)
    #define ottla_read_8(from, at) (((const volatile int8_t*)(from))[at])
    #define ottla_read_16(from, at) (((const volatile ottla_16*)(from))[at].it)
    #define ottla_read_32(from, at) (((const volatile ottla_32*)(from))[at].it)
    #define ottla_read_64(from, at) (((const volatile ottla_64*)(from))[at].it)
    #define ottla_read_double(from, at) (((const volatile ottla_double*)(from))[at].it)
    """
    int8_t read_8 "ottla_read_8"(const void* start, Py_ssize_t at) noexcept nogil
    int16_t read_16 "ottla_read_16"(const void* start, Py_ssize_t at) noexcept nogil
    int32_t read_32 "ottla_read_32"(const void* start, Py_ssize_t at) noexcept nogil
    int64_t read_64 "ottla_read_64"(const void* start, Py_ssize_t at) noexcept nogil
    double read_double "ottla_read_double"(const void* start, Py_ssize_t at) noexcept nogil


cdef inline bint is_set(const uint8_t* bits, Py_ssize_t place) noexcept nogil:
    return <uint8_t>read_8(bits, place >> 3) >> (place & 7) & 1


cdef inline const void* start_of_buffer(object buffer, Py_ssize_t size) except? NULL:
    # Return the start of a buffer with at least *size* bytes. Raises ValueError for one that has fewer.
    cdef Py_ssize_t available = 0 if buffer is None else buffer.size
    if size > available:
        raise ValueError(f"an Arrow buffer has {available} bytes, but its rows need {size}")
    return NULL if buffer is None else <const void*><uintptr_t>buffer.address


cdef inline const uint8_t* validity_of(object buffer, Py_ssize_t stop) except? NULL:
    # Return the bits of the rows up to *stop*; NULL: all are valid.
    return NULL if buffer is None else <const uint8_t*>start_of_buffer(buffer, (stop + 7) >> 3)


cdef inline bint are_within(int64_t first, int64_t last, Py_ssize_t size) noexcept nogil:
    # Return whether a row's bytes lie within a buffer of this size.
    return 0 <= first <= last <= size
