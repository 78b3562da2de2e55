"""`Producer.send` for the most common records: those that fit into an open batch.

The producer's own `send`, in Python, handles all other cases (types other than bytes, a topic or batch that does not
exist yet, an error) and raises the errors. It is called only if the fast `send` has changed nothing.
"""

from functools import partial
from types import MethodType

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from cpython.object cimport PyObject, PyTypeObject
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uintptr_t
from libc.string cimport memcpy

from ottla_accel.columns cimport NativeColumns
from ottla_accel.locks cimport Mutex, dict_item, list_item, lock, new_reference, unchanging, unlock
from ottla_accel.murmur2 cimport hash_of
from ottla_accel.slots cimport member_offset, new_owner, read_slot
from ottla_accel.varints cimport varint_size, write_varint

from ottla_accel.layout import offsets

from ottla.accumulator.batch import ProducerBatch
from ottla.config.wait_limit import check_timeout
from ottla.errors import ProducerClosedError
from ottla.producer.callbacks import UNCHECKED, check_callback

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(PyObject* text, Py_ssize_t* size) except NULL
    bint PyUnicode_CheckExact(PyObject* thing)
    bint PyBytes_Check_ "PyBytes_CheckExact"(PyObject* thing)
    char* PyBytes_AsString_ "PyBytes_AS_STRING"(PyObject* thing)
    Py_ssize_t PyBytes_Size_ "PyBytes_GET_SIZE"(PyObject* thing)
    bint PyTuple_CheckExact(PyObject* thing)
    Py_ssize_t PyTuple_GET_SIZE(PyObject* thing)
    PyObject* PyTuple_GET_ITEM(PyObject* thing, Py_ssize_t index)
    bint PyList_CheckExact(PyObject* thing)
    Py_ssize_t PyList_GET_SIZE(PyObject* thing)
    PyObject* PyList_GET_ITEM(PyObject* thing, Py_ssize_t index)
    bint PyLong_CheckExact(PyObject* thing)
    long long PyLong_AsLongLongAndOverflow(PyObject* number, int* overflow) except? -1
    PyObject* Py_None
    bint PyFunction_Check(PyObject* thing)
    PyObject* PyFunction_GET_CODE(PyObject* function)
    bint PyMethod_Check(PyObject* thing)
    PyObject* PyMethod_GET_FUNCTION(PyObject* method)
    PyTypeObject* Py_TYPE(PyObject* thing)

cdef extern from *:
    """
    #if (defined(__GNUC__) || defined(__clang__)) && !defined(Py_GIL_DISABLED)
    #define OTTLA_PREFETCHES 1
    #define ottla_prefetch(at) __builtin_prefetch((const void*)(at), 1)
    #else
    #define OTTLA_PREFETCHES 0
    #define ottla_prefetch(at) ((void)(at))
    #endif
    """
    const bint PREFETCHES "OTTLA_PREFETCHES"
    void prefetch "ottla_prefetch"(uintptr_t at) noexcept nogil

cdef extern from "<time.h>" nogil:
    struct timespec:
        int64_t tv_sec
        long tv_nsec
    int timespec_get(timespec* time, int base)
    int TIME_UTC

cdef Py_ssize_t ROUTE_STICKY_BATCH, ROUTE_QUEUES, ROUTE_VIEW
cdef Py_ssize_t VIEW_PARTITIONS
cdef Py_ssize_t QUEUE_OPEN
cdef Py_ssize_t BATCH_COLUMNS
cdef Py_ssize_t DELIVERY_BATCH, DELIVERY_INDEX

(
    ROUTE_STICKY_BATCH,
    ROUTE_QUEUES,
    ROUTE_VIEW,
    VIEW_PARTITIONS,
    QUEUE_OPEN,
    BATCH_COLUMNS,
    DELIVERY_BATCH,
    DELIVERY_INDEX,
    _,
) = offsets()

cdef Py_ssize_t PARTIAL_FUNC = member_offset(partial.__dict__["func"])

cdef const uint8_t* NO_HEADERS = b"\0"
cdef enum: SMALL_HEADERS = 1024  # bytes that need no allocation
cdef type BATCH = ProducerBatch
cdef type PARTIAL = partial
cdef type METHOD = MethodType


cdef enum:
    HINTED_FROM = 64  # partitions; the batches of fewer are in the cache anyway
    MAX_HINTS = 16384  # a power of two
    LINE = 64  # bytes of the processor's cache


cdef struct Hint:
    # Where the last record of a partition went, and the next one probably goes. Only for prefetching, which takes any
    # address: the batch may be gone, and other partitions have the same place.
    uintptr_t batch
    uintptr_t columns
    uintptr_t end
    uintptr_t fact


cdef class QuickSend:
    """One producer's fast `send`. `routes` has its open batches; `slow` is the function of its `send` in Python.

    *delivery*: the class of what it returns, `Delivery` or a subclass with the same slots.
    """

    cdef dict _routes
    cdef object _producer
    cdef object _slow
    cdef type _delivery
    cdef object _checked_callback
    cdef Mutex _mutex  # of `_checked_callback`; the others are not set again
    cdef bint _sticky
    cdef bint _hashes
    cdef bint _ignores_keys
    cdef Hint* _hints  # one for each partition, in a table of a power of two
    cdef Py_ssize_t _hints_count

    def __init__(self, *, dict routes, producer, slow, type delivery, bint sticky, bint hashes, bint ignores_keys):
        self._routes = routes
        self._producer = producer
        self._slow = slow
        self._delivery = delivery
        self._sticky = sticky
        self._hashes = hashes
        self._ignores_keys = ignores_keys
        self._checked_callback = UNCHECKED

    def __dealloc__(self):
        PyMem_Free(self._hints)

    def send(
        self, topic, value=None, key=None, *, headers=(), partition=None, timestamp_ms=None, on_delivery=None,
        timeout=None,
    ):
        # The first line becomes the signature, which CPython takes from the documentation of functions in C. The rest is
        # that of `Producer.send`; a test compares both.
        """send($self, topic, value=None, key=None, *, headers=(), partition=None, timestamp_ms=None, \
on_delivery=None, timeout=None)\n--\n\nQueue a record and return its delivery, the future of its result.

        *value* and *key* are bytes, bytearray, memoryview or None, or what their serializer takes; a value of None is a
        tombstone. *headers* are pairs of a name and bytes or None, or a mapping of such; None is no headers. Without
        *partition* the partitioner chooses. *timestamp_ms* is in milliseconds since 1970, or a datetime with a time
        zone; by default it is the current time.

        *on_delivery* is called on the I/O thread, once the record is acknowledged or has failed, with a delivery of the
        record: read its `error` or its `metadata`. After this call, the error counts as retrieved, unless the call
        raises. A function that cannot take one argument raises TypeError.

        Blocks only while the topic is not known yet, while `buffer.memory` is used up, and for lookups of a serializer:
        at most *timeout* seconds altogether, or `max.block.ms`. 0 never waits: the error then says what for. Inside a
        callback it never waits, either. When it raises, the record was not queued: InvalidRecordError
        or its subclasses RecordTooLargeError and SerializationError, TopicUnavailableError, SecurityError,
        BufferExhaustedError, ProducerClosedError, ProducerFailedError, InvalidPluginError for a fault of the
        partitioner. With a `transactional.id` also IllegalStateError outside of a transaction, and
        AbortableTransactionError or FatalTransactionError when the transaction has failed. The delivery reports later
        errors.

        For any thread, and for signal handlers, as every method is: critical sections finish before a handler runs.
        IllegalStateError reports a call that interrupted another one; that is possible only with a third-party
        `record.encoder`, and in `__del__`.
        """
        cdef PyObject* batch
        cdef object delivery
        cdef long long chosen = -1
        cdef long long hinted = -1
        if timeout is not None:
            check_timeout(timeout)
        if (value is None or PyBytes_CheckExact(value)) and (key is None or PyBytes_CheckExact(key)):
            batch = self._open_batch(topic, key, partition, &chosen, &hinted)
            if batch is not NULL:
                delivery = self._append(batch, value, key, headers, timestamp_ms, on_delivery)
                if delivery is not None:
                    if hinted >= 0:
                        self._note(hinted, <PyObject*>delivery)
                    return delivery
        producer = self._producer()
        if producer is None:
            raise ProducerClosedError("the producer was garbage-collected; keep a reference to it while its send is used")
        if chosen >= 0:
            partition = chosen  # so that `slow` does not hash the key again
        return self._slow(
            producer, topic, value, key,
            headers=headers, partition=partition, timestamp_ms=timestamp_ms, on_delivery=on_delivery, timeout=timeout,
        )

    cdef PyObject* _open_batch(self, topic, key, partition, long long* of_key, long long* hinted) except? NULL:
        """Return a new reference to the batch for the record; NULL if this is not a simple case.

        *of_key* becomes the partition of the key, if it was hashed. *hinted* becomes the partition, if it has a hint.
        """
        cdef PyObject* at
        cdef long long chosen, partitions
        cdef int overflow = 0, too_many = 0
        if type(topic) is not str:
            return NULL
        route = dict_item(<PyObject*>self._routes, <PyObject*>topic, Py_None)
        if route is None:
            return NULL
        at = <PyObject*>route
        if partition is None and (key is None or self._ignores_keys):
            return new_reference(at, ROUTE_STICKY_BATCH) if self._sticky else NULL
        # Of a route, only the sticky batch is set again.
        partitions = PyLong_AsLongLongAndOverflow(read_slot(read_slot(at, ROUTE_VIEW), VIEW_PARTITIONS), &too_many)
        if too_many or partitions <= 0:
            return NULL
        if partition is not None:
            if not PyLong_CheckExact(<PyObject*>partition):
                return NULL
            chosen = PyLong_AsLongLongAndOverflow(<PyObject*>partition, &overflow)
        elif self._hashes:
            chosen = hash_of(<const uint8_t*>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key)) & 0x7FFFFFFF
            chosen %= partitions
            of_key[0] = chosen
        else:
            return NULL
        # There are more queues than partitions after a topic was created again with fewer.
        if overflow or not 0 <= chosen < partitions:
            return NULL
        if PREFETCHES and partitions >= HINTED_FROM:
            self._prefetch(chosen, partitions)
            hinted[0] = chosen
        queue = list_item(read_slot(at, ROUTE_QUEUES), chosen, Py_None)
        return NULL if queue is None else new_reference(<PyObject*>queue, QUEUE_OPEN)

    cdef void _prefetch(self, long long chosen, long long partitions) noexcept:
        """Prefetch what the record of a partition probably needs.

        The list of queues, a queue, its batch, the columns and their memory refer to each other. With thousands of
        partitions none of them is in the cache, and without a hint the processor would wait for one after the other.
        """
        cdef Hint* hint
        cdef Py_ssize_t count = HINTED_FROM
        if self._hints_count < MAX_HINTS and self._hints_count < partitions:
            while count < partitions and count < MAX_HINTS:
                count *= 2
            PyMem_Free(self._hints)
            self._hints, self._hints_count = NULL, 0
            self._hints = <Hint*>PyMem_Calloc(count, sizeof(Hint))
            if self._hints is NULL:
                return  # without memory there are no hints
            self._hints_count = count
        hint = &self._hints[chosen & (self._hints_count - 1)]
        prefetch(hint.batch)
        prefetch(hint.batch + BATCH_COLUMNS)
        prefetch(hint.columns)
        prefetch(hint.columns + LINE)
        prefetch(hint.end)
        prefetch(hint.end + LINE)
        prefetch(hint.fact)

    cdef void _note(self, long long chosen, PyObject* delivery) noexcept:
        """Note where the record of this new delivery is.

        While it was appended, a finalizer may have sent to a topic with more partitions, which moves the hints.
        """
        cdef PyObject* batch = read_slot(delivery, DELIVERY_BATCH)
        cdef PyObject* columns = read_slot(batch, BATCH_COLUMNS)
        cdef Hint* hint
        if self._hints is NULL:
            return
        hint = &self._hints[chosen & (self._hints_count - 1)]
        hint.batch = <uintptr_t>batch
        hint.columns = <uintptr_t>columns
        hint.end = <uintptr_t>((<NativeColumns>columns)._bytes + (<NativeColumns>columns)._size)
        hint.fact = <uintptr_t>((<NativeColumns>columns)._facts + (<NativeColumns>columns)._count)

    cdef object _append(self, PyObject* batch, value, key, headers, timestamp_ms, on_delivery):
        """Append the record and return its delivery, or None if it was not appended. Takes over the reference."""
        cdef PyObject* columns
        cdef Py_ssize_t index
        cdef int64_t timestamp
        # This may run the garbage collector and with it another send, so it comes first.
        delivery = new_owner(<PyObject*>self._delivery, DELIVERY_BATCH, batch)
        if Py_TYPE(batch) is not <PyTypeObject*>BATCH:
            return None
        columns = read_slot(batch, BATCH_COLUMNS)  # which is not set again
        if Py_TYPE(columns) is not <PyTypeObject*>NativeColumns or not read_time(timestamp_ms, &timestamp):
            return None
        if on_delivery is None and is_empty(<PyObject*>headers):
            index = put(<NativeColumns>columns, delivery, value, key, NO_HEADERS, 1, timestamp, None)
        else:
            index = self._put_general(<NativeColumns>columns, delivery, value, key, headers, timestamp, on_delivery)
        return None if index < 0 else delivery

    cdef Py_ssize_t _put_general(
        self, NativeColumns native, delivery, value, key, headers, int64_t timestamp, on_delivery
    ) except -2:
        """Put a record with headers or a callback; return its index, or -1 if it was not put."""
        cdef uint8_t small[SMALL_HEADERS]
        cdef uint8_t* large = NULL
        cdef const uint8_t* section
        cdef Py_ssize_t size
        # Steps that can fail, or that can run the garbage collector and with it another send, come first.
        if on_delivery is not None:
            self._check_callback(on_delivery)
            native.prepare_callbacks()
        if is_empty(<PyObject*>headers):
            return put(native, delivery, value, key, NO_HEADERS, 1, timestamp, on_delivery)
        try:
            size = encode_headers(headers, small, &large)
            if size < 0:
                return -1
            section = small
            if large is not NULL:
                section = large
            return put(native, delivery, value, key, section, size, timestamp, on_delivery)
        finally:
            PyMem_Free(large)

    cdef int _check_callback(self, on_delivery) except -1:
        # Only the address is compared. If it is that of the key, the callback keeps the key alive.
        if callback_key(<PyObject*>on_delivery) == <PyObject*>self._checked_callback:
            return 0
        checked = check_callback(on_delivery)
        lock(&self._mutex)
        before = self._checked_callback  # released after the mutex
        self._checked_callback = checked
        unlock(&self._mutex)
        return 0


cdef Py_ssize_t encode_headers(headers, uint8_t* small, uint8_t** large) except -2:
    """Encode headers into the *small* memory or, if they are large, into new memory. Return their size.

    -1: they are not a simple case.
    """
    cdef bint listed = PyList_CheckExact(<PyObject*>headers)
    if not listed and not PyTuple_CheckExact(<PyObject*>headers):
        return -1
    cdef object kept = unchanging(<PyObject*>headers) if listed else headers
    cdef PyObject* items = <PyObject*>kept
    listed = PyList_CheckExact(items)
    cdef Py_ssize_t count = PyList_GET_SIZE(items) if listed else PyTuple_GET_SIZE(items)
    cdef Py_ssize_t position, needed = varint_size(count), name_size, content_size
    cdef PyObject* header
    cdef PyObject* content
    cdef const char* name
    for position in range(count):
        header = PyList_GET_ITEM(items, position) if listed else PyTuple_GET_ITEM(items, position)
        if not PyTuple_CheckExact(header) or PyTuple_GET_SIZE(header) != 2:
            return -1
        content = PyTuple_GET_ITEM(header, 1)
        if not PyUnicode_CheckExact(PyTuple_GET_ITEM(header, 0)):
            return -1
        if content is not Py_None and not PyBytes_Check_(content):
            return -1
        try:
            PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(header, 0), &name_size)
        except UnicodeEncodeError:
            return -1
        content_size = -1 if content is Py_None else PyBytes_Size_(content)
        needed += varint_size(name_size) + name_size + varint_size(content_size) + max(content_size, 0)
    cdef uint8_t* to = small
    if needed > SMALL_HEADERS:
        large[0] = to = <uint8_t*>PyMem_Malloc(needed)
        if to is NULL:
            raise MemoryError
    to = write_varint(to, count)
    for position in range(count):
        header = PyList_GET_ITEM(items, position) if listed else PyTuple_GET_ITEM(items, position)
        content = PyTuple_GET_ITEM(header, 1)
        name = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(header, 0), &name_size)
        to = write_varint(to, name_size)
        memcpy(to, name, name_size)
        content_size = -1 if content is Py_None else PyBytes_Size_(content)
        to = write_varint(to + name_size, content_size)
        if content_size > 0:
            memcpy(to, PyBytes_AsString_(content), content_size)
            to += content_size
    return needed


cdef inline bint read_time(timestamp_ms, int64_t* timestamp) except -1:
    """Read the time of a record, or of now for None. Return False if this is not a simple case."""
    cdef int overflow = 0
    if timestamp_ms is None:
        timestamp[0] = now_ms()
        return True
    if not PyLong_CheckExact(<PyObject*>timestamp_ms):
        return False
    timestamp[0] = PyLong_AsLongLongAndOverflow(<PyObject*>timestamp_ms, &overflow)
    return not overflow and timestamp[0] >= 0


cdef inline PyObject* callback_key(PyObject* callback) noexcept:
    """Return a borrowed reference to the key that `check_callback` returns, or NULL."""
    cdef PyObject* kind = <PyObject*>Py_TYPE(callback)
    if kind is <PyObject*>PARTIAL and PARTIAL_FUNC >= 0:
        callback = read_slot(callback, PARTIAL_FUNC)
    if PyMethod_Check(callback):
        callback = PyMethod_GET_FUNCTION(callback)
    if PyFunction_Check(callback):
        return PyFunction_GET_CODE(callback)
    return NULL if kind is <PyObject*>PARTIAL or kind is <PyObject*>METHOD else kind


cdef inline bint is_empty(PyObject* headers) noexcept:
    return PyTuple_CheckExact(headers) and PyTuple_GET_SIZE(headers) == 0


cdef inline Py_ssize_t put(
    NativeColumns native, delivery, value, key, const uint8_t* section, Py_ssize_t section_size, int64_t timestamp,
    on_delivery,
) except -2:
    """Put the record of this delivery. From here on nothing runs that might put another one."""
    return native.put_whole(
        NULL if key is None else <const uint8_t*>PyBytes_AS_STRING(key),
        -1 if key is None else PyBytes_GET_SIZE(key),
        NULL if value is None else <const uint8_t*>PyBytes_AS_STRING(value),
        -1 if value is None else PyBytes_GET_SIZE(value),
        section,
        section_size,
        timestamp,
        on_delivery,
        <PyObject*>delivery,
    )


cdef inline int64_t now_ms() noexcept nogil:
    cdef timespec time
    timespec_get(&time, TIME_UTC)
    return time.tv_sec * 1000 + time.tv_nsec // 1_000_000
