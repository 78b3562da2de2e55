"""Columns of a batch that encode each record when it is appended, so that sealing need not encode any.

A record's bytes are copied once, from the caller's objects to the memory that the socket sends. The times and sizes
that deliveries report are stored separately. Appending runs no Python code, and holds the GIL or, without one, a mutex:
so it is one step for other threads. The lock is for operations of several steps, such as moving records from other
columns.
"""

from array import array
from operator import itemgetter
from threading import Lock
from time import time_ns

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from ottla_accel.blocks cimport count_use, free_block, keep, new_block, resized, take_kept, take_larger
from ottla_accel.locks cimport has_references, load, lock, lock_both, store, unlock
from ottla_accel.slots cimport fill, forget_hash, new_object, new_tuple, read_slot, replace_slot, write_slot
from ottla_accel.varints cimport read_varint, varint_size, write_varint

from ottla_accel.layout import check, check_tuples, offsets

check()

from ottla import RecordMetadata
from ottla.accumulator.delivery import AcknowledgedDelivery
from ottla.errors import InvalidRecordError
from ottla.interfaces import Encoded, Facts
from ottla.recordbatch.core_abilities import CallbackRunner, LockingColumns
from ottla.recordbatch.header_sections import encode_headers
from ottla.recordbatch.objects import TIMESTAMP_MAX, ObjectColumns

cdef type METADATA = RecordMetadata
cdef type DELIVERY = AcknowledgedDelivery
cdef Py_ssize_t DELIVERY_BATCH, DELIVERY_INDEX, DELIVERY_METADATA

*_, DELIVERY_BATCH, DELIVERY_INDEX, DELIVERY_METADATA = offsets()
check_tuples(METADATA)

cdef tuple INDEXES = tuple(range(4096))  # of most records; a new int for each callback would take a seventh of its time
cdef int32_t NO_SIZE = -2  # no size of any key or value: that of null is -1

cdef Py_ssize_t FIRST_CAPACITY = 256
cdef Py_ssize_t SMALL_CAPACITY = 2048  # below it, memory grows faster: the batches of many partitions hardly get larger
cdef Py_ssize_t FACT = sizeof(Fact)

cdef Py_ssize_t CALLBACK = 2 * sizeof(Py_ssize_t)

FACT_SIZE = FACT
"""Bytes of memory for a record's times and sizes, in addition to its encoded bytes."""

CALLBACK_SIZE = CALLBACK
"""Bytes of memory for a record's callback, which are a reference to it and the record's index."""

cdef class Bytes:
    """Read-only memory that other code fills; freed with its last view, or kept for the next batch."""

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self._bytes, self._size, 1, flags)

    def __dealloc__(self):
        if self._fitted:  # too small for a batch of the usual size
            free_block(self._bytes, self._capacity)
        else:
            keep(self._bytes, self._capacity)

    cdef int take(self, Py_ssize_t size) except -1:
        """Allocate at least *size* bytes, from a completed batch if one fits."""
        self._bytes = take_kept(size, size + size // 8, &self._capacity)
        if self._bytes is NULL:
            self._bytes = new_block(size)
            if self._bytes is NULL:
                raise MemoryError
            self._capacity = size
            count_use(0, size)
        return 0

    cdef void fit(self, Py_ssize_t size) noexcept:
        """Set the number of filled bytes. If many are unused, take a block of that size, or shrink the memory."""
        cdef uint8_t* smaller
        self._size = size
        if size >= self._capacity - self._capacity // 16:
            return
        if size < self._capacity // 2:
            # A copy, so that the whole block is kept for the next batch.
            smaller = new_block(size)
            if smaller is not NULL:
                memcpy(smaller, self._bytes, size)
                keep(self._bytes, self._capacity)
                self._bytes, self._capacity, self._fitted = smaller, size, True
                return
        smaller = resized(self._bytes, self._capacity, size)
        if smaller is not NULL:
            count_use(self._capacity, 0)
            self._bytes, self._capacity, self._fitted = smaller, size, True


cdef class IndexedCallbacks:
    """Pairs of index and callback, in order. Only iteration creates them: thousands would slow the garbage collector.

    Callbacks that records were sent with come first, then *given* ones, which were added to a delivery or forwarded
    with a record.
    """

    cdef list _callbacks
    cdef list _given
    cdef Py_ssize_t* _indexes

    def __dealloc__(self):
        PyMem_Free(self._indexes)

    def __len__(self):
        return len(self._callbacks) + len(self._given)

    def __iter__(self):
        cdef Py_ssize_t place
        cdef list pairs = []
        for place in range(len(self._callbacks)):  # no comprehension: see test_memory.py
            pairs.append((self._indexes[place], self._callbacks[place]))
        return iter(sorted([*pairs, *self._given], key=itemgetter(0)))


cdef class CallbackCaller:
    """Call the callbacks of one batch. Objects of a delivery that a callback did not keep are reused for the next."""

    cdef NativeColumns columns
    cdef object batch
    cdef object topic
    cdef object partition
    cdef long long base_offset
    cdef long long log_append_time_ms
    cdef object raised
    cdef object delivery
    cdef object metadata  # of that delivery
    cdef object time
    cdef int64_t time_ms
    cdef int32_t key_size, value_size  # the sizes in the metadata

    cdef int call(self, Py_ssize_t index, callback) except -1:
        cdef Fact fact
        cdef int64_t time_ms
        if not 0 <= index < load(&self.columns._count):
            raise IndexError(f"there is no record {index} to call back for")
        fact = self.columns._fact(index)
        if self.delivery is None or not has_references(<PyObject*>self.delivery, 1):
            self.delivery = new_object(<PyObject*>DELIVERY)
            self._make_metadata()
            write_slot(<PyObject*>self.delivery, DELIVERY_BATCH, self.batch)
            write_slot(<PyObject*>self.delivery, DELIVERY_INDEX, index_object(index))
            write_slot(<PyObject*>self.delivery, DELIVERY_METADATA, self.metadata)
        else:
            replace_slot(<PyObject*>self.delivery, DELIVERY_INDEX, index_object(index))
            # A callback may have kept the metadata, or set another one on the delivery.
            if (
                read_slot(<PyObject*>self.delivery, DELIVERY_METADATA) != <PyObject*>self.metadata
                or not has_references(<PyObject*>self.metadata, 2)
            ):
                self._make_metadata()
                replace_slot(<PyObject*>self.delivery, DELIVERY_METADATA, self.metadata)
            else:
                forget_hash(<PyObject*>self.metadata)
        time_ms = fact.timestamp_ms if self.log_append_time_ms < 0 else self.log_append_time_ms
        if self.time is None or time_ms != self.time_ms:
            self.time, self.time_ms = time_ms, time_ms
        fill(self.metadata, 2, self.base_offset + index if self.base_offset >= 0 else -1)
        fill(self.metadata, 3, self.time)
        if fact.key_size != self.key_size:
            fill(self.metadata, 4, fact.key_size)
            self.key_size = fact.key_size
        if fact.value_size != self.value_size:
            fill(self.metadata, 5, fact.value_size)
            self.value_size = fact.value_size
        try:
            callback(self.delivery)
        except BaseException:
            self.raised()
        return 0

    cdef int _make_metadata(self) except -1:
        """Make metadata that has a topic and a partition, and nothing else yet."""
        self.metadata = new_tuple(METADATA, 6)
        fill(self.metadata, 0, self.topic)
        fill(self.metadata, 1, self.partition)
        self.key_size = self.value_size = NO_SIZE
        return 0


cdef inline object index_object(Py_ssize_t index):
    return INDEXES[index] if index < len(INDEXES) else index


cdef class NativeColumns:
    """Records in format v2, ready for the wire; `ottla.interfaces.Columns` documents its methods."""

    def __cinit__(self, Py_ssize_t limit):
        self._limit = limit
        self.lock = Lock()

    def __dealloc__(self):
        keep(self._bytes, self._capacity)
        free_block(<uint8_t*>self._facts, self._facts_capacity * FACT)
        PyMem_Free(self._called_back)

    def append(self, key, value, headers, timestamp_ms):
        """Append a record and return its index, None if there is no room. An empty batch takes any record."""
        return self.put(key, value, headers, timestamp_ms, None)

    def put(self, key, value, headers, timestamp_ms, on_delivery):
        """`append` with a callback, under the lock. The default timestamp is the current time."""
        if timestamp_ms is None:
            timestamp_ms = time_ns() // 1_000_000
        elif not -1 <= timestamp_ms <= TIMESTAMP_MAX:
            raise InvalidRecordError(f"timestamp_ms={timestamp_ms} is not between -1 and {TIMESTAMP_MAX}")
        cdef int64_t timestamp = timestamp_ms
        cdef bytes section = encode_headers(headers) if headers else b"\0"
        cdef const uint8_t* key_start = start_of(key)
        cdef const uint8_t* value_start = start_of(value)
        cdef const uint8_t* section_start = start_of(section)
        cdef Py_ssize_t index
        if on_delivery is not None:
            self.prepare_callbacks()
        self.lock.acquire()  # `with` would pass a NULL pointer to its end if there is no memory for a traceback
        try:
            index = self.put_whole(
                key_start, size_of(key), value_start, size_of(value), section_start, len(section), timestamp,
                on_delivery, NULL,
            )
        finally:
            self.lock.release()
        return None if index < 0 else index

    def allow(self, Py_ssize_t memory):
        """Set the limit of the records' memory to *memory* bytes."""
        lock(&self._mutex)
        self._limit = memory
        unlock(&self._mutex)

    def close(self):
        """Refuse all further records."""
        lock(&self._mutex)
        store(&self._closed, 1)
        unlock(&self._mutex)

    def memory(self):
        """Return the memory of the records, of their facts and of their callbacks."""
        lock(&self._mutex)
        cdef Py_ssize_t used = self._size + self._count * FACT + callback_bytes(self)
        unlock(&self._mutex)
        return used

    def __len__(self):
        return load(&self._count)

    def size_estimate(self):
        """Return the exact size of the records section, in bytes."""
        return load(&self._size)

    def encode(self, int magic):
        """Return the section without a copy; in a format before v2, the core's own columns encode the records again."""
        cdef Bytes section = self._take()
        if magic != 2:
            try:
                return self._replayed(section._bytes).encode(magic)
            except BaseException:  # a format that cannot hold the records: they stay here
                self._give_back(section)
                raise
        return Encoded(
            chunks=[memoryview(section)],
            first_timestamp=self._facts[0].timestamp_ms,
            max_timestamp=self._highest,
            count=self._count,
        )

    cdef Bytes _take(self):
        """Close the columns and take the records out of them. Raises ValueError if there are none."""
        cdef Bytes section = Bytes()
        lock(&self._mutex)
        section._bytes, section._size, section._capacity = self._bytes, self._size, self._capacity
        if section._bytes is not NULL:
            self._bytes, self._capacity = NULL, 0
            store(&self._closed, 1)
        unlock(&self._mutex)
        check_records(section._bytes)
        return section

    cdef int _give_back(self, Bytes section) except -1:
        lock(&self._mutex)
        if self._bytes is NULL:
            self._bytes, self._capacity = section._bytes, section._capacity
            section._bytes, section._capacity = NULL, 0
        unlock(&self._mutex)
        return 0

    def extend(self, NativeColumns other not None, indexes):
        """Append these records of other columns while there is room; return their number."""
        _start, taken = self.extend_at(other, indexes)
        return taken

    def extend_at(self, NativeColumns other not None, indexes):
        """`extend`, and return the index of the first record here, too."""
        cdef int64_t[::1] all_wanted = array("q", indexes)  # first, because it may run code that moves the records
        cdef const uint8_t* at
        cdef Py_ssize_t position = 0, place, wanted, taken = 0, start
        cdef Parts parts
        if other is self:
            raise IndexError("columns have no other records of their own to copy")
        lock_both(&self._mutex, &other._mutex)
        try:
            at, start = other._bytes, self._count
            for place in range(all_wanted.shape[0]):
                wanted = all_wanted[place]
                if at is NULL or not 0 <= wanted < other._count:
                    raise IndexError(f"there is no record {wanted} to copy")
                if wanted < position:
                    at, position = other._bytes, 0
                while position <= wanted:
                    at = other._read(at, position, &parts)
                    position += 1
                if self.put_parts(
                    parts.key, other._facts[wanted].key_size, parts.value, other._facts[wanted].value_size,
                    parts.headers, parts.headers_size, other._facts[wanted].timestamp_ms,
                ) < 0:
                    break
                taken += 1
        finally:
            unlock(&self._mutex)
            unlock(&other._mutex)
        return start, taken

    def keys(self):
        """Return the keys of all records, before `encode`."""
        cdef const uint8_t* at
        cdef Py_ssize_t index
        cdef Parts parts
        cdef list keys = []
        lock(&self._mutex)
        try:
            check_records(self._bytes)
            at = self._bytes
            for index in range(self._count):
                at = self._read(at, index, &parts)
                keys.append(part_of(parts.key, self._facts[index].key_size))
        finally:
            unlock(&self._mutex)
        return keys

    def release(self):
        """Release the records, which other columns have taken over; keep their number and their facts."""
        lock(&self._mutex)
        cdef uint8_t* released = self._bytes
        cdef Py_ssize_t capacity = self._capacity
        self._bytes, self._capacity = NULL, 0
        store(&self._closed, 1)
        unlock(&self._mutex)
        keep(released, capacity)

    def facts(self):
        """Return the facts that deliveries report of each record; also after `encode`."""
        lock(&self._mutex)
        cdef Py_ssize_t index, count = self._count  # the current one: creating arrays may run code that appends
        cdef bint closed = self._closed, keyed = self._keyed
        facts = self._facts_after_close
        unlock(&self._mutex)
        if facts is not None:
            return facts
        timestamps, key_sizes, value_sizes = array("q", bytes(8 * count)), None, array("i", bytes(4 * count))
        cdef int64_t[::1] times = timestamps
        cdef int32_t[::1] values = value_sizes
        cdef int32_t[::1] keys
        if keyed:
            key_sizes = array("i", bytes(4 * count))
            keys = key_sizes
        lock(&self._mutex)
        for index in range(count):
            times[index] = self._facts[index].timestamp_ms
            values[index] = self._facts[index].value_size
            if keyed:
                keys[index] = self._facts[index].key_size
        unlock(&self._mutex)
        facts = Facts(timestamps, key_sizes, value_sizes)
        if closed:
            lock(&self._mutex)
            if self._facts_after_close is None:  # set once: another thread may be taking a reference to it
                self._facts_after_close = facts
            unlock(&self._mutex)
        return facts

    cdef Fact _fact(self, Py_ssize_t index) noexcept:
        """Return the facts of one record; without the mutex once they do not change any more."""
        cdef Fact fact
        if load(&self._closed):
            return self._facts[index]
        lock(&self._mutex)
        fact = self._facts[index]
        unlock(&self._mutex)
        return fact

    # Callbacks of records: stored separately, so that none needs a tuple

    def take_callbacks(self, list given):
        """Return and remove all pairs of index and callback in order: those of records, and the ordered *given*."""
        cdef IndexedCallbacks indexed
        if self._callbacks is None:
            return given
        indexed = IndexedCallbacks.__new__(IndexedCallbacks)
        indexed._given = given
        lock(&self._mutex)
        indexed._callbacks, indexed._indexes = self._callbacks, self._called_back
        self._callbacks, self._called_back, self._called_back_capacity = None, NULL, 0
        unlock(&self._mutex)
        return indexed if indexed._callbacks is not None else given

    def run_callbacks(self, callbacks, batch, long long base_offset, long long log_append_time_ms, raised):
        """Call each callback of a pair with its record's delivery; *raised*() in an except block if it raises."""
        cdef IndexedCallbacks indexed
        cdef Py_ssize_t place, index
        cdef Py_ssize_t called = 0
        cdef list given
        cdef CallbackCaller caller = CallbackCaller.__new__(CallbackCaller)
        caller.columns, caller.batch, caller.raised = self, batch, raised
        caller.topic, caller.partition = batch.topic, batch.partition
        caller.base_offset, caller.log_append_time_ms = base_offset, log_append_time_ms
        if type(callbacks) is not IndexedCallbacks:
            for index, callback in callbacks:
                caller.call(index, callback)
            return
        indexed = callbacks
        given = indexed._given
        for place in range(len(indexed._callbacks)):
            index = indexed._indexes[place]
            while called < len(given) and given[called][0] < index:
                caller.call(given[called][0], given[called][1])
                called += 1
            caller.call(index, indexed._callbacks[place])
        for index, callback in given[called:]:
            caller.call(index, callback)

    def metadata(
        self, topic, partition, Py_ssize_t first, Py_ssize_t end, long long base_offset, long long log_append_time_ms
    ):
        """Return the metadata of the records from *first* to before *end*, in a batch with this base offset."""
        cdef Py_ssize_t index
        cdef Fact fact
        cdef int64_t time_ms, last_ms = -1
        cdef object time = None
        cdef list found = []
        if not 0 <= first <= end <= load(&self._count):
            raise IndexError(f"there are {len(self)} records, and not those from {first} to before {end}")
        for index in range(first, end):
            made = new_tuple(METADATA, 6)
            fact = self._fact(index)
            time_ms = fact.timestamp_ms if log_append_time_ms < 0 else log_append_time_ms
            if time is None or time_ms != last_ms:
                time, last_ms = time_ms, time_ms
            fill(made, 0, topic)
            fill(made, 1, partition)
            fill(made, 2, base_offset + index if base_offset >= 0 else -1)
            fill(made, 3, time)
            fill(made, 4, fact.key_size)
            fill(made, 5, fact.value_size)
            found.append(made)
        return found

    cdef int prepare_callbacks(self) except -1:
        """Create the list of callbacks. This may run the garbage collector, and with it code that adds a callback."""
        cdef list made
        cdef bint missing
        lock(&self._mutex)
        missing = self._callbacks is None
        unlock(&self._mutex)
        if missing:
            made = []
            lock(&self._mutex)
            if self._callbacks is None:
                self._callbacks = made
            unlock(&self._mutex)
        return 0

    cdef int add_callback(self, callback) except -1:
        """Add the callback of the next record before the record, so that nothing can fail after the record is put.

        Like `put_parts` it is for the holder of the mutex, after `prepare_callbacks`.
        """
        cdef Py_ssize_t place, capacity
        cdef void* memory
        if self._callbacks is None:  # another thread has taken them, from closed columns, which take no record
            self._callbacks = []  # CPython 3.11 may collect garbage here, and so run any code, which is harmless then
        place = len(self._callbacks)
        if place == self._called_back_capacity:
            capacity = max(2 * place, 4)
            memory = PyMem_Realloc(self._called_back, capacity * <Py_ssize_t>sizeof(Py_ssize_t))
            if memory is NULL:
                raise MemoryError
            self._called_back, self._called_back_capacity = <Py_ssize_t*>memory, capacity
        self._callbacks.append(callback)
        self._called_back[place] = self._count
        return 0

    cdef int remove_callback(self) except -1:
        """Remove the last callback, because its record was not put."""
        self._callbacks.pop()
        return 0

    cdef Py_ssize_t put_whole(
        self,
        const uint8_t* key,
        Py_ssize_t key_size,
        const uint8_t* value,
        Py_ssize_t value_size,
        const uint8_t* headers,
        Py_ssize_t headers_size,
        int64_t timestamp_ms,
        on_delivery,
        PyObject* delivery,
    ) except -2:
        """`put_parts`, with the callback unless it is None, and the index for a new *delivery* unless that is NULL.

        For other threads this is one step. No code runs in it that might send another record.
        """
        cdef Py_ssize_t index = -1
        lock(&self._mutex)
        try:
            if delivery is not NULL:
                write_slot(delivery, DELIVERY_INDEX, self._count)  # before the record: a new int may need memory
            if on_delivery is not None:
                self.add_callback(on_delivery)
            try:
                index = self.put_parts(key, key_size, value, value_size, headers, headers_size, timestamp_ms)
            finally:
                if index < 0 and on_delivery is not None:
                    self.remove_callback()
        finally:
            unlock(&self._mutex)
        return index

    cdef Py_ssize_t put_parts(
        self,
        const uint8_t* key,
        Py_ssize_t key_size,
        const uint8_t* value,
        Py_ssize_t value_size,
        const uint8_t* headers,
        Py_ssize_t headers_size,
        int64_t timestamp_ms,
    ) except -2:
        """`append` for checked parts: size -1 is null, headers are encoded. Returns -1 if there is no room.

        For the holder of the mutex.
        """
        cdef Py_ssize_t index = self._count
        cdef int64_t first = self._first if index else timestamp_ms
        if self._closed or (first < 0 and timestamp_ms == INT64_MAX):
            return -1  # the difference of the timestamps would be 2**63, too much for a delta
        cdef int64_t delta = timestamp_ms - first
        cdef Py_ssize_t body = 1 + varint_size(delta) + varint_size(index) + headers_size
        body += varint_size(key_size) + max(key_size, 0) + varint_size(value_size) + max(value_size, 0)
        cdef Py_ssize_t needed = varint_size(body) + body
        if index and self._size + needed + (index + 1) * FACT + callback_bytes(self) > self._limit:
            return -1
        if self._size + needed > self._capacity or index == self._facts_capacity:
            self._grow(needed)
        cdef uint8_t* to = write_varint(self._bytes + self._size, body)
        to[0] = 0
        to = write_varint(write_varint(to + 1, delta), index)
        to = _write_part(to, key, key_size)
        to = _write_part(to, value, value_size)
        memcpy(to, headers, headers_size)
        store(&self._size, self._size + needed)
        self._facts[index] = Fact(timestamp_ms, <int32_t>key_size, <int32_t>value_size)
        self._keyed |= key_size >= 0
        if index == 0:
            self._first = self._highest = timestamp_ms
        elif timestamp_ms > self._highest:
            self._highest = timestamp_ms
        store(&self._count, index + 1)
        return index

    cdef int _grow(self, Py_ssize_t needed) except -1:
        """Get memory for one more record: some times the current size, and more than the batch's limit only if needed.

        The limit is that of the records, facts and callbacks together. So each gets the share of it that it has so far;
        memory beyond that would remain unused, in each of thousands of batches.
        """
        cdef Py_ssize_t used = self._size + self._count * FACT + callback_bytes(self)
        cdef double growth = max(<double>self._limit / used, 1.0) if used else 1.0
        cdef Py_ssize_t min_bytes = self._size + needed
        cdef Py_ssize_t share = <Py_ssize_t>(self._size * growth)
        cdef Py_ssize_t times = 4 if self._capacity < SMALL_CAPACITY else 2
        cdef Py_ssize_t size = max(min(max(times * self._capacity, FIRST_CAPACITY), share), min_bytes)
        cdef uint8_t* larger
        if min_bytes > self._capacity and not self._move_to_kept(size):
            larger = resized(self._bytes, self._capacity, size)
            if larger is NULL:
                raise MemoryError
            count_use(self._capacity, size)
            self._bytes, self._capacity = larger, size
        if self._count == self._facts_capacity:
            # An eighth more at least, because a batch's limit may grow record by record where memory is short.
            share = max(<Py_ssize_t>(self._count * growth), self._count + self._count // 8 + 1)
            size = min(max(times * self._facts_capacity, 4), share)
            larger = resized(<uint8_t*>self._facts, self._facts_capacity * FACT, size * FACT)
            if larger is NULL:
                raise MemoryError
            self._facts, self._facts_capacity = <Fact*>larger, size
        return 0

    cdef bint _move_to_kept(self, Py_ssize_t size) noexcept:
        """Move the records to kept memory of *size* bytes or more; return False if there is none."""
        cdef Py_ssize_t capacity = 0
        cdef uint8_t* found = take_larger(size, &capacity)
        if found is NULL:
            return False
        if self._size:
            memcpy(found, self._bytes, self._size)
        keep(self._bytes, self._capacity)
        self._bytes, self._capacity = found, capacity
        return True

    # Reading what was written

    cdef const uint8_t* _read(self, const uint8_t* at, Py_ssize_t index, Parts* parts) noexcept:
        """Read the parts of the record at *at*; return the start of the next one."""
        cdef int64_t body, ignored
        at = read_varint(at, &body)
        cdef const uint8_t* end = at + body
        at = read_varint(read_varint(at + 1, &ignored), &ignored)
        parts.key = read_varint(at, &ignored)
        parts.value = read_varint(parts.key + max(self._facts[index].key_size, 0), &ignored)
        parts.headers = parts.value + max(self._facts[index].value_size, 0)
        parts.headers_size = end - parts.headers
        return end

    cdef object _replayed(self, const uint8_t* at):
        """Return the records, which begin at *at*, in columns that can encode old formats."""
        cdef Py_ssize_t index
        cdef Parts parts
        columns = ObjectColumns(2 ** 62)
        for index in range(self._count):
            at = self._read(at, index, &parts)
            columns.append(
                part_of(parts.key, self._facts[index].key_size),
                part_of(parts.value, self._facts[index].value_size),
                _headers(parts.headers),
                self._facts[index].timestamp_ms,
            )
        return columns


LockingColumns.register(NativeColumns)
CallbackRunner.register(NativeColumns)


cdef inline int check_records(const uint8_t* records) except -1:
    if records is NULL:
        raise ValueError("there are no records: none was appended, or they were encoded or released")
    return 0


cdef inline Py_ssize_t callback_bytes(NativeColumns columns) noexcept:
    return 0 if columns._callbacks is None else PyList_GET_SIZE(columns._callbacks) * CALLBACK


cdef inline object part_of(const uint8_t* start, Py_ssize_t size):
    return None if size < 0 else PyBytes_FromStringAndSize(<const char*>start, size)


cdef inline const uint8_t* start_of(part) except? NULL:
    """Return the bytes of a key or value; a subclass cannot override them."""
    if part is None:
        return NULL
    if not PyBytes_Check(part):
        raise TypeError(f"a key or value must be bytes or None, not {type(part).__name__}")
    return <const uint8_t*>PyBytes_AS_STRING(part)


cdef inline Py_ssize_t size_of(part) noexcept:
    return PyBytes_GET_SIZE(part) if part is not None and PyBytes_Check(part) else -1


cdef inline uint8_t* _write_part(uint8_t* to, const uint8_t* part, Py_ssize_t size) noexcept nogil:
    to = write_varint(to, size)
    if size > 0:
        memcpy(to, part, size)
        to += size
    return to


cdef object _headers(const uint8_t* at):
    """Decode the headers of one record."""
    cdef int64_t count, size
    at = read_varint(at, &count)
    headers = []
    for _ in range(count):
        at = read_varint(at, &size)
        name = PyBytes_FromStringAndSize(<const char*>at, size).decode()
        at = read_varint(at + size, &size)
        content = None if size < 0 else PyBytes_FromStringAndSize(<const char*>at, size)
        at += max(size, 0)
        headers.append((name, content))
    return headers
