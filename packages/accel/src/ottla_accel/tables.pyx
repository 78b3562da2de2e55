"""Rows of a table into batches, from Arrow's buffers to the bytes of the wire, without an object for a row.

Loops over rows run without the GIL. Arrays were validated by pyarrow, so their offsets are not looked at.
"""

from array import array

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy, memset

from ottla_accel.columns cimport Fact, NativeColumns
from ottla_accel.murmur2 cimport hash_of
from ottla_accel.varints cimport varint_size, write_varint

from ottla.batch import UNDECIDED
from ottla.recordbatch.table_rows import Cut

cdef struct Column:
    const uint8_t* valid
    const int32_t* offsets
    const int64_t* large_offsets
    const uint8_t* data
    Py_ssize_t start

cdef int UNDECIDED_ = UNDECIDED
cdef const uint8_t* NO_HEADERS = b"\0"


cdef int open_column(object array, Column* column) except -1:
    """Look into a binary or large_binary array, which has to be kept; None: null in every row."""
    memset(column, 0, sizeof(Column))
    if array is None:
        return 0
    validity, offsets, data = array.buffers()
    column.start = array.offset
    if validity is not None and array.null_count:
        column.valid = <const uint8_t*><uintptr_t>validity.address
    kind = str(array.type)
    if kind == "large_binary":
        column.large_offsets = <const int64_t*><uintptr_t>offsets.address
    elif kind == "binary":
        column.offsets = <const int32_t*><uintptr_t>offsets.address
    else:
        raise TypeError(f"{kind} where binary or large_binary is read")
    column.data = NULL if data is None else <const uint8_t*><uintptr_t>data.address
    return 0


cdef inline Py_ssize_t look_up(const Column* column, Py_ssize_t row, const uint8_t** part) noexcept nogil:
    """A row's bytes and their size, -1 for null."""
    cdef int64_t first, last
    row += column.start
    if column.offsets is not NULL:
        first, last = column.offsets[row], column.offsets[row + 1]
    elif column.large_offsets is not NULL:
        first, last = column.large_offsets[row], column.large_offsets[row + 1]
    else:
        return -1
    if column.valid is not NULL and not column.valid[row >> 3] >> (row & 7) & 1:
        return -1
    part[0] = column.data + first
    return last - first


def murmur2_partitions(keys not None, int partitions):
    """The partitions of keys, none of which is null, as an array of int32."""
    cdef Column column
    cdef Py_ssize_t row, size, count = len(keys)
    cdef const uint8_t* key = NULL
    open_column(keys, &column)
    chosen = array("i", bytes(4 * count))
    cdef int32_t[::1] to = chosen
    with nogil:
        for row in range(count):
            size = look_up(&column, row, &key)
            to[row] = (hash_of(key, size) & 0x7FFFFFFF) % partitions
    return chosen


def cut_rows(rows, partitions, *, Py_ssize_t most):
    """What `ottla.recordbatch.arrow.cut_rows` does."""
    cutter = Cutter(rows, partitions, most)
    while (cut := cutter.next()) is not None:
        yield cut


cdef class Cutter:
    """The rows of a chunk in the order of their partitions, and how far they have been cut."""

    cdef object _rows  # keeps the buffers
    cdef object _partitions
    cdef Column _keys
    cdef Column _values
    cdef Column _headers
    cdef const int64_t* _times
    cdef int64_t _now
    cdef int32_t* _order
    cdef const int32_t* _given
    cdef Py_ssize_t _count
    cdef Py_ssize_t _position
    cdef Py_ssize_t _most

    def __cinit__(self, rows, partitions, Py_ssize_t most):
        for column, kind in ((rows.timestamps, "int64"), (partitions, "int32")):
            if column is not None and str(column.type) != kind:
                raise TypeError(f"{column.type} where {kind} is read")
        self._rows, self._partitions, self._most = rows, partitions, most
        self._count = rows.count
        self._now = rows.now_ms
        open_column(rows.keys, &self._keys)
        open_column(rows.values, &self._values)
        open_column(rows.headers, &self._headers)
        if rows.timestamps is not None:
            self._times = <const int64_t*><uintptr_t>rows.timestamps.buffers()[1].address + <Py_ssize_t>rows.timestamps.offset
        if partitions is not None and self._count:
            self._given = <const int32_t*><uintptr_t>partitions.buffers()[1].address + <Py_ssize_t>partitions.offset
            self._sort()

    def __dealloc__(self):
        PyMem_Free(self._order)

    cdef int _sort(self) except -1:
        """Put the rows in the order of their partitions, and within each in their own."""
        cdef Py_ssize_t row, partition, before, here, highest = 0
        for row in range(self._count):
            if self._given[row] > highest:
                highest = self._given[row]
        cdef Py_ssize_t* starts = <Py_ssize_t*>PyMem_Malloc((highest + 1) * sizeof(Py_ssize_t))
        self._order = <int32_t*>PyMem_Malloc(self._count * sizeof(int32_t))
        if starts is NULL or self._order is NULL:
            PyMem_Free(starts)
            raise MemoryError
        memset(starts, 0, (highest + 1) * sizeof(Py_ssize_t))
        with nogil:
            for row in range(self._count):
                starts[self._given[row]] += 1
            before = 0
            for partition in range(highest + 1):
                here = starts[partition]
                starts[partition] = before
                before += here
            for row in range(self._count):
                partition = self._given[row]
                self._order[starts[partition]] = <int32_t>row
                starts[partition] += 1
        PyMem_Free(starts)
        return 0

    cpdef object next(self):
        """The next batch, None after the last."""
        cdef Py_ssize_t start = self._position, stop, size
        cdef NativeColumns columns
        if start == self._count:
            return None
        with nogil:
            stop = self._fitting(start, &size)
        columns = NativeColumns(0)
        columns.make_room_for(stop - start, size)
        with nogil:
            self._write(columns._bytes, columns._facts, start, stop)
        self._sum_up(columns, stop - start, size)
        self._position = stop
        if self._order is NULL:
            return Cut(UNDECIDED, range(start, stop), columns)
        indexes = array("i", (<char*>(self._order + start))[: (stop - start) * <Py_ssize_t>sizeof(int32_t)])
        return Cut(self._given[self._order[start]], indexes, columns)

    cdef inline Py_ssize_t _row(self, Py_ssize_t position) noexcept nogil:
        return position if self._order is NULL else self._order[position]

    cdef inline int64_t _time(self, Py_ssize_t row) noexcept nogil:
        return self._now if self._times is NULL else self._times[row]

    cdef Py_ssize_t _fitting(self, Py_ssize_t start, Py_ssize_t* size) noexcept nogil:
        """Where the batch that begins here ends, and the size of its section."""
        cdef Py_ssize_t position = start, row = self._row(start), body
        cdef int64_t first = self._time(row)
        cdef int32_t partition = UNDECIDED_ if self._order is NULL else self._given[row]
        size[0] = 0
        while position < self._count:
            row = self._row(position)
            if self._order is not NULL and self._given[row] != partition:
                break
            body = self._body(row, self._time(row) - first, position - start)
            body += varint_size(body)
            if position > start and size[0] + body > self._most:
                break
            size[0] += body
            position += 1
        return position

    cdef inline Py_ssize_t _body(self, Py_ssize_t row, int64_t delta, Py_ssize_t index) noexcept nogil:
        """The size of a record without its length."""
        cdef const uint8_t* part = NULL
        cdef Py_ssize_t key_size = look_up(&self._keys, row, &part), value_size = look_up(&self._values, row, &part)
        cdef Py_ssize_t headers_size = look_up(&self._headers, row, &part)
        cdef Py_ssize_t size = 1 + varint_size(delta) + varint_size(index)
        size += varint_size(key_size) + max(key_size, 0) + varint_size(value_size) + max(value_size, 0)
        return size + (1 if headers_size < 0 else headers_size)

    cdef void _write(self, uint8_t* to, Fact* facts, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
        """The records of the rows from *start* to *stop*, where there is room for them."""
        cdef Py_ssize_t position, row, key_size, value_size, headers_size, index
        cdef const uint8_t* key = NULL
        cdef const uint8_t* value = NULL
        cdef const uint8_t* headers = NULL
        cdef int64_t first = self._time(self._row(start)), time
        for position in range(start, stop):
            row, index = self._row(position), position - start
            time = self._time(row)
            key_size, value_size = look_up(&self._keys, row, &key), look_up(&self._values, row, &value)
            headers_size = look_up(&self._headers, row, &headers)
            if headers_size < 0:
                headers, headers_size = NO_HEADERS, 1
            to = write_varint(to, self._body(row, time - first, index))
            to[0] = 0
            to = write_varint(write_varint(to + 1, time - first), index)
            to = write_varint(to, key_size)
            if key_size > 0:
                memcpy(to, key, key_size)
                to += key_size
            to = write_varint(to, value_size)
            if value_size > 0:
                memcpy(to, value, value_size)
                to += value_size
            memcpy(to, headers, headers_size)
            to += headers_size
            facts[index] = Fact(time, <int32_t>key_size, <int32_t>value_size)

    cdef int _sum_up(self, NativeColumns columns, Py_ssize_t count, Py_ssize_t size) except -1:
        """Tell the columns what was written into them."""
        cdef Py_ssize_t index
        cdef int64_t highest = columns._facts[0].timestamp_ms
        for index in range(count):
            if columns._facts[index].timestamp_ms > highest:
                highest = columns._facts[index].timestamp_ms
        columns._count, columns._size, columns._highest = count, size, highest
        columns._keyed = self._keys.offsets is not NULL or self._keys.large_offsets is not NULL
        columns.close()
        return 0
