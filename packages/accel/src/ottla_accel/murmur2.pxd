from libc.stdint cimport uint32_t, uint8_t


cdef uint32_t hash_of(const uint8_t* data, Py_ssize_t size) noexcept nogil
