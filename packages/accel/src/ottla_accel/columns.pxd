from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

from ottla_accel.locks cimport Mutex

ctypedef struct Fact:
    int64_t timestamp_ms
    int32_t key_size
    int32_t value_size

ctypedef struct Parts:
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers
    Py_ssize_t headers_size


cdef class Bytes:
    cdef uint8_t* _bytes
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity
    cdef bint _fitted
    cdef int take(self, Py_ssize_t size) except -1
    cdef void fit(self, Py_ssize_t size) noexcept


cdef class NativeColumns:
    # First what each record reads or writes, so that it is in two lines of the processor's cache.
    cdef uint8_t* _bytes
    cdef Py_ssize_t _size
    cdef Py_ssize_t _capacity
    cdef Fact* _facts
    cdef Py_ssize_t _facts_capacity
    cdef Py_ssize_t _count
    cdef Py_ssize_t _limit
    cdef int64_t _first  # timestamp, as in the first of the facts
    cdef int64_t _highest
    cdef Py_ssize_t _closed  # 1: no record is added any more, and the facts do not change
    cdef list _callbacks
    cdef bint _keyed
    cdef Mutex _mutex
    cdef readonly object lock
    cdef object _facts_after_close
    cdef Py_ssize_t* _called_back
    cdef Py_ssize_t _called_back_capacity

    cdef Py_ssize_t put_parts(
        self,
        const uint8_t* key,
        Py_ssize_t key_size,
        const uint8_t* value,
        Py_ssize_t value_size,
        const uint8_t* headers,
        Py_ssize_t headers_size,
        int64_t timestamp_ms,
    ) except -2
    cdef Py_ssize_t put_whole(
        self,
        const uint8_t* key,
        Py_ssize_t key_size,
        const uint8_t* value,
        Py_ssize_t value_size,
        const uint8_t* headers,
        Py_ssize_t headers_size,
        int64_t timestamp_ms,
        object on_delivery,
        PyObject* delivery,
    ) except -2
    cdef int prepare_callbacks(self) except -1
    cdef int add_callback(self, object callback) except -1
    cdef int remove_callback(self) except -1
    cdef int _grow(self, Py_ssize_t needed) except -1
    cdef bint _move_to_kept(self, Py_ssize_t size) noexcept
    cdef Bytes _take(self)
    cdef int _give_back(self, Bytes section) except -1
    cdef object _replayed(self, const uint8_t* at)
    cdef const uint8_t* _read(self, const uint8_t* at, Py_ssize_t index, Parts* parts) noexcept
    cdef Fact _fact(self, Py_ssize_t index) noexcept
