"""Batches from the rows of a table: from Arrow's buffers to encoded records, without a Python object for a row.

Loops over rows run without the GIL, and the buffers may change meanwhile (`buffers.pxd`). So partitions and times are
copied first, offsets are read once for each row and checked, and a row that does not fit into the allocated memory is
not written, even if the sizes that were added up before say that it fits.
"""

from array import array

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.string cimport memcpy, memset

from ottla_accel.buffers cimport are_within, is_set, read_32, read_64, start_of_buffer, validity_of
from ottla_accel.columns cimport Bytes
from ottla_accel.murmur2 cimport hash_of
from ottla_accel.varints cimport varint_size, write_varint

from ottla.accumulator.batch import UNASSIGNED
from ottla.interfaces import Cut, Facts
from ottla.recordbatch.number_columns import Constant
from ottla.recordbatch.finished_columns import FinishedColumns

cdef struct Column:
    const uint8_t* valid
    const int32_t* offsets
    const int64_t* large_offsets
    const uint8_t* data
    Py_ssize_t size  # of the data
    Py_ssize_t start

cdef struct Written:
    uint8_t* at
    Py_ssize_t room
    int64_t highest

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define ottla_prefetch(address) __builtin_prefetch(address)
    #else
    #define ottla_prefetch(address) ((void)(address))
    #endif
    """
    void prefetch "ottla_prefetch"(const void* address) noexcept nogil

cdef int UNASSIGNED_ = UNASSIGNED
cdef const uint8_t* NO_HEADERS = b"\0"
cdef Py_ssize_t AHEAD = 16  # rows to prefetch, because those of one partition are scattered
cdef Py_ssize_t MOST_FRAME = 48  # upper bound of a record's bytes besides its parts


cdef str CHANGED = "offsets of an Arrow column lie outside of its data: it was not valid, or changed while it was read"

cdef enum:
    NULL_ROW = -1
    WRONG_ROW = -2  # its offsets lie outside of the data


cdef int open_column(object array, Column* column) except -1:
    """Read the buffers of a binary or large_binary array, which must stay alive. None stands for null in every row."""
    cdef Py_ssize_t stop
    memset(column, 0, sizeof(Column))
    if array is None:
        return 0
    validity, offsets, data = array.buffers()
    column.start = array.offset
    stop = column.start + <Py_ssize_t>len(array)
    if validity is not None and array.null_count:
        column.valid = validity_of(validity, stop)
    kind = str(array.type)
    # An array without rows may have no offsets; it is not read.
    if kind == "large_binary":
        column.large_offsets = <const int64_t*>start_of_buffer(offsets, 8 * (stop + 1) if len(array) else 0)
    elif kind == "binary":
        column.offsets = <const int32_t*>start_of_buffer(offsets, 4 * (stop + 1) if len(array) else 0)
    else:
        raise TypeError(f"a column is {kind}, not binary or large_binary")
    if data is not None:
        column.data, column.size = <const uint8_t*><uintptr_t>data.address, data.size
    return 0


cdef inline Py_ssize_t look_up(const Column* column, Py_ssize_t row, const uint8_t** part) noexcept nogil:
    """Return the size of a row's bytes, NULL_ROW or WRONG_ROW; *part* gets the bytes."""
    cdef int64_t first, last
    row += column.start
    if column.offsets is not NULL:
        first, last = read_32(column.offsets, row), read_32(column.offsets, row + 1)
    elif column.large_offsets is not NULL:
        first, last = read_64(column.large_offsets, row), read_64(column.large_offsets, row + 1)
    else:
        return NULL_ROW
    if column.valid is not NULL and not is_set(column.valid, row):
        return NULL_ROW
    if not are_within(first, last, column.size):
        return WRONG_ROW
    part[0] = column.data + first
    return last - first


cdef inline Py_ssize_t look_up_plainly(const Column* column, Py_ssize_t row, const uint8_t** part) noexcept nogil:
    """Like `look_up`, for a plain column."""
    if column.offsets is NULL:
        return NULL_ROW
    row += column.start
    cdef int64_t first = read_32(column.offsets, row), last = read_32(column.offsets, row + 1)
    if not are_within(first, last, column.size):
        return WRONG_ROW
    part[0] = column.data + first
    return last - first


cdef inline void fetch(const Column* column, Py_ssize_t row) noexcept nogil:
    """Prefetch a row of a plain column, up to the size of most values."""
    cdef const uint8_t* part = NULL
    if look_up_plainly(column, row, &part) > 0:
        prefetch(part)
        prefetch(part + 64)


cdef inline bint is_absent(const Column* column) noexcept nogil:
    return column.offsets is NULL and column.large_offsets is NULL


cdef inline bint is_plain(const Column* column) noexcept nogil:
    """Return whether a column is binary without nulls, or null in every row."""
    return column.large_offsets is NULL and column.valid is NULL


cdef Py_ssize_t span(const Column* column, Py_ssize_t count) noexcept nogil:
    """Return the bytes of all rows. This is an estimate, because other threads may change the offsets."""
    cdef int64_t first = 0, last = 0
    if count and column.offsets is not NULL:
        first, last = read_32(column.offsets, column.start), read_32(column.offsets, column.start + count)
    elif count and column.large_offsets is not NULL:
        first, last = read_64(column.large_offsets, column.start), read_64(column.large_offsets, column.start + count)
    return last - first if are_within(first, last, column.size) else 0


cdef void* copy_of_numbers(column, Py_ssize_t width) except NULL:
    """Return a copy of an array's numbers, which the caller frees."""
    cdef Py_ssize_t count = len(column), start = column.offset
    cdef const uint8_t* numbers = <const uint8_t*>start_of_buffer(column.buffers()[1], width * (start + count))
    cdef void* copied = PyMem_Malloc(max(1, width * count))
    if copied is NULL:
        raise MemoryError
    if count:
        memcpy(copied, numbers + width * start, width * count)
    return copied


cdef inline uint8_t* write_part(uint8_t* to, const uint8_t* part, Py_ssize_t size) noexcept nogil:
    to = write_varint(to, size)
    if size > 0:
        memcpy(to, part, size)
        to += size
    return to


cdef object int_array(const int32_t* numbers, Py_ssize_t count):
    return array("i", (<const char*>numbers)[: count * <Py_ssize_t>sizeof(int32_t)])


def murmur2_partitions(keys not None, int partitions):
    """Return the partitions of keys, none of which is null, as an array of int32."""
    cdef Column column
    cdef Py_ssize_t row, size = 0, count = len(keys)
    cdef const uint8_t* key = NULL
    if partitions <= 0:
        raise ValueError(f"the number of partitions must be positive, not {partitions}")
    open_column(keys, &column)
    chosen = array("i", bytes(4 * count))
    cdef int32_t[::1] to = chosen
    with nogil:
        for row in range(count):
            size = look_up(&column, row, &key)
            if size == WRONG_ROW:
                break
            to[row] = (hash_of(key, max(size, 0)) & 0x7FFFFFFF) % partitions
    if size == WRONG_ROW:
        raise ValueError(CHANGED)
    return chosen


def cut_rows(rows, partitions, *, Py_ssize_t max_bytes):
    """Like `ottla.recordbatch.arrow.cut_rows`."""
    cutter = Cutter(rows, partitions, max_bytes)
    while (cut := cutter.next()) is not None:
        yield cut


cdef class Cutter:
    """The rows of a chunk in the order of their partitions, and the position of the next batch."""

    cdef object _rows  # keeps the buffers alive
    cdef object _partitions
    cdef Column _keys
    cdef Column _values
    cdef Column _headers
    cdef int64_t* _times  # our own copy
    cdef int64_t _now
    cdef int32_t* _order
    cdef int32_t* _given  # our own copy
    cdef int32_t* _sizes  # of one batch's keys and, after one entry for each row, of its values
    cdef Py_ssize_t _count
    cdef Py_ssize_t _position
    cdef Py_ssize_t _most
    cdef Py_ssize_t _all  # estimated maximum bytes of all rows
    cdef bint _plain

    def __cinit__(self, rows, partitions, Py_ssize_t max_bytes):
        for column, kind in ((rows.timestamps, "int64"), (partitions, "int32")):
            if column is not None and str(column.type) != kind:
                raise TypeError(f"a column is {column.type}, not {kind}")
        self._rows, self._partitions, self._most = rows, partitions, max_bytes
        self._count = rows.count
        self._now = rows.now_ms
        for column in (rows.keys, rows.values, rows.headers, rows.timestamps, partitions):
            if column is not None and len(column) != self._count:
                raise ValueError(f"a column of {len(column)} rows where there are {self._count}")
        open_column(rows.keys, &self._keys)
        open_column(rows.values, &self._values)
        open_column(rows.headers, &self._headers)
        if rows.timestamps is not None and self._count:
            self._times = <int64_t*>copy_of_numbers(rows.timestamps, sizeof(int64_t))
        self._plain = is_plain(&self._keys) and is_plain(&self._values) and rows.headers is None and self._times is NULL
        self._all = self._count * MOST_FRAME
        self._all += span(&self._keys, self._count) + span(&self._values, self._count) + span(&self._headers, self._count)
        self._sizes = <int32_t*>PyMem_Malloc(2 * self._count * sizeof(int32_t))
        if self._sizes is NULL:
            raise MemoryError
        if partitions is not None and self._count:
            self._given = <int32_t*>copy_of_numbers(partitions, sizeof(int32_t))
            self._sort()

    def __dealloc__(self):
        PyMem_Free(self._times)
        PyMem_Free(self._given)
        PyMem_Free(self._order)
        PyMem_Free(self._sizes)

    cdef int _sort(self) except -1:
        """Sort the rows by partition, stable within each."""
        cdef Py_ssize_t row, partition, before, here, highest = 0
        cdef int32_t lowest = 0
        with nogil:
            for row in range(self._count):
                highest = max(highest, self._given[row])
                lowest = min(lowest, self._given[row])
        if lowest < 0:
            raise ValueError(f"there is no partition {lowest}")
        cdef Py_ssize_t* starts = <Py_ssize_t*>PyMem_Malloc((highest + 1) * sizeof(Py_ssize_t))
        self._order = <int32_t*>PyMem_Malloc(self._count * sizeof(int32_t))
        if starts is NULL or self._order is NULL:
            PyMem_Free(starts)
            raise MemoryError
        with nogil:
            memset(starts, 0, (highest + 1) * sizeof(Py_ssize_t))
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
        """Return the next batch, None after the last."""
        cdef Py_ssize_t start = self._position, stop
        cdef Written written
        if start == self._count:
            return None
        cdef Bytes section = Bytes()
        written.room = max(min(self._most, self._all), self._first_size(start))
        section.take(written.room)
        written.at = section._bytes
        with nogil:
            stop = self._write_plainly(start, &written) if self._plain else self._write(start, &written, False)
        section.fit(written.at - section._bytes)
        if stop == start:
            raise ValueError(CHANGED)
        self._position = stop
        columns = self._columns(section, start, stop, &written)
        if self._order is NULL:
            return Cut(UNASSIGNED, range(start, stop), columns)
        return Cut(self._given[self._order[start]], int_array(self._order + start, stop - start), columns)

    cdef object _columns(self, Bytes section, Py_ssize_t start, Py_ssize_t stop, Written* written):
        cdef Py_ssize_t count = stop - start, index
        cdef int64_t[::1] to
        times = Constant(self._now, count)
        if self._times is not NULL:
            times = array("q", bytes(8 * count))
            to = times
            for index in range(count):
                to[index] = self._times[self._row(start + index)]
        return FinishedColumns(
            memoryview(section),
            count=count,
            first_timestamp=self._time(self._row(start)),
            highest_timestamp=written.highest,
            facts=Facts(
                times,
                None if is_absent(&self._keys) else int_array(self._sizes, count),
                Constant(-1, count) if is_absent(&self._values) else int_array(self._sizes + self._count, count),
            ),
        )

    cdef inline Py_ssize_t _row(self, Py_ssize_t position) noexcept nogil:
        return position if self._order is NULL else self._order[position]

    cdef inline int64_t _time(self, Py_ssize_t row) noexcept nogil:
        return self._now if self._times is NULL else self._times[row]

    cdef Py_ssize_t _first_size(self, Py_ssize_t start) noexcept nogil:
        """Return an upper bound of the first record's size; a batch takes its first record regardless of its size."""
        cdef const uint8_t* part = NULL
        cdef Py_ssize_t row = self._row(start), size = MOST_FRAME
        size += max(look_up(&self._keys, row, &part), 0) + max(look_up(&self._values, row, &part), 0)
        return size + max(look_up(&self._headers, row, &part), 0)

    cdef Py_ssize_t _write_plainly(self, Py_ssize_t start, Written* written) noexcept nogil:
        return self._write(start, written, True)

    cdef inline Py_ssize_t _write(self, Py_ssize_t start, Written* written, bint plain) noexcept nogil:
        """Write one batch, from the row at *start* on; return the next batch's start, or *start* on failure.

        *plain*: no headers, no nulls, no times, no large columns. It is a compile-time constant.
        """
        cdef Py_ssize_t position = start, row, body, needed, key_size, value_size, headers_size = 1
        cdef Py_ssize_t left = min(self._most, written.room)  # a first record may need more than *max_bytes*
        cdef const uint8_t* key = NULL
        cdef const uint8_t* value = NULL
        cdef const uint8_t* headers = NO_HEADERS
        cdef int64_t first = self._time(self._row(start)), time = first, delta = 0
        cdef int32_t partition = UNASSIGNED_ if self._order is NULL else self._given[self._order[start]]
        cdef int32_t* key_sizes = self._sizes
        cdef int32_t* value_sizes = self._sizes + self._count
        cdef uint8_t* to = written.at
        written.highest = first
        while position < self._count:
            row = self._row(position)
            if self._order is not NULL and self._given[row] != partition:
                break
            if plain:
                if self._order is not NULL and position + AHEAD < self._count:
                    fetch(&self._values, self._order[position + AHEAD])
                    fetch(&self._keys, self._order[position + AHEAD])
                key_size, value_size = look_up_plainly(&self._keys, row, &key), look_up_plainly(&self._values, row, &value)
            else:
                key_size, value_size = look_up(&self._keys, row, &key), look_up(&self._values, row, &value)
                headers_size = look_up(&self._headers, row, &headers)
                if headers_size == WRONG_ROW:
                    break
                if headers_size == NULL_ROW:
                    headers, headers_size = NO_HEADERS, 1
                time = self._time(row)
                delta = <int64_t>(<uint64_t>time - <uint64_t>first)
            if key_size == WRONG_ROW or value_size == WRONG_ROW:
                break
            body = 1 + varint_size(delta) + varint_size(position - start) + headers_size
            body += varint_size(key_size) + max(key_size, 0) + varint_size(value_size) + max(value_size, 0)
            needed = varint_size(body) + body
            if needed > left and (position > start or needed > written.room):
                break
            left -= needed
            to = write_varint(to, body)
            to[0] = 0
            to = write_varint(write_varint(to + 1, delta), position - start)
            to = write_part(to, key, key_size)
            to = write_part(to, value, value_size)
            if plain:
                to[0] = 0
            else:
                memcpy(to, headers, headers_size)
                written.highest = max(written.highest, time)
            to += headers_size
            key_sizes[position - start] = <int32_t>key_size
            value_sizes[position - start] = <int32_t>value_size
            position += 1
        written.at = to
        return position
