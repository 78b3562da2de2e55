"""Rows of columns as bytes, one after the other: offsets of int32, and a content that grows while rows are written."""

from cpython.mem cimport PyMem_Malloc, PyMem_Realloc
from libc.stdint cimport INT32_MAX, int32_t, uint8_t

from ottla_accel.columns cimport Bytes


cdef class RowBuffers:
    """The buffers of *count* rows, with *room* bytes at first. *what* the rows are is for errors, such as JSON."""

    def __cinit__(self, Py_ssize_t count, Py_ssize_t room, str what):
        self.offsets, self.content = Bytes.__new__(Bytes), Bytes.__new__(Bytes)
        self.count, self.room, self.what = count, room, what
        self.offsets._bytes = <uint8_t*>PyMem_Malloc((count + 1) * sizeof(int32_t))
        self.content._bytes = <uint8_t*>PyMem_Malloc(room)
        if self.offsets._bytes is NULL or self.content._bytes is NULL:
            raise MemoryError
        self.offsets._size = (count + 1) * sizeof(int32_t)
        (<int32_t*>self.offsets._bytes)[0] = 0

    cdef int make_room(self, Written written) except -1:
        """Double the room, because not all rows are *written*. Raises ValueError where something is wrong with one."""
        cdef uint8_t* larger
        if written.wrong:
            raise ValueError(
                "offsets of an Arrow column lie outside of its data: it was not valid, or changed while it was read"
            )
        if self.room > INT32_MAX:
            raise self.too_many()
        larger = <uint8_t*>PyMem_Realloc(self.content._bytes, self.room * 2)
        if larger is NULL:
            raise MemoryError
        self.content._bytes = larger
        self.room *= 2
        return 0

    cdef tuple finished(self, Written written):
        """Return the offsets and the content of all rows, without the room that is left."""
        cdef uint8_t* smaller
        if written.size > INT32_MAX:
            raise self.too_many()
        smaller = <uint8_t*>PyMem_Realloc(self.content._bytes, max(written.size, 1))
        if smaller is not NULL:
            self.content._bytes = smaller
        self.content._size = written.size
        return self.offsets, self.content

    def too_many(self):
        return OverflowError(f"{self.count} rows are more than 2 GiB of {self.what}; let a record batch have fewer")
