# Rows of columns as bytes, one after the other: the buffers of `json_rows` and `avro_rows`.

from ottla_accel.columns cimport Bytes

cdef struct Written:
    Py_ssize_t row
    Py_ssize_t size
    bint wrong  # offsets of the next row lie outside of their data

cdef class RowBuffers:
    cdef Bytes offsets, content
    cdef Py_ssize_t count, room
    cdef str what

    cdef int make_room(self, Written written) except -1
    cdef tuple finished(self, Written written)
