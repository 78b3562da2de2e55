"""The wait of a task for one record: `await delivery` of an `AsyncProducer`, as the core's `TaskWait` and `__await__`.

Here is what most waits need: one wait, for a record that is acknowledged in the batch it was sent in. The core's own
`Delivery.__await__` does the rest: errors, and records that are in another batch by now.
"""

cimport cython
from cpython.contextvars cimport PyContext_Enter, PyContext_Exit
from cpython.object cimport PyObject

from ottla_accel.slots cimport read_slot

from ottla_accel.layout import check, offsets

check()

from asyncio import CancelledError, get_running_loop

from ottla.accumulator.batch_outcome import Acknowledged
from ottla.accumulator.delivery import Delivery
from ottla.accumulator.event_loops import inbox_of, of_thread

cdef extern from *:
    """
    static void ottla_end_with(PyObject* value) {
        /* As a generator does for a tuple, which would be taken for the arguments of the exception otherwise. */
        PyObject* end = PyObject_CallFunctionObjArgs(PyExc_StopIteration, value, NULL);
        if (end != NULL) {
            PyErr_SetObject(PyExc_StopIteration, end);
            Py_DECREF(end);
        }
    }
    """
    void end_with "ottla_end_with"(object value) noexcept

cdef Py_ssize_t DELIVERY_BATCH, DELIVERY_INDEX
cdef type ACKNOWLEDGED = Acknowledged
cdef type DELIVERY = Delivery

*_, DELIVERY_BATCH, DELIVERY_INDEX, _ = offsets()


cdef class NativeTaskWait:
    """A `TaskWait` of the core, which has the documentation of the attributes and methods."""

    cdef public bint _asyncio_future_blocking
    cdef readonly bint pending
    cdef readonly object value
    cdef object _loop
    cdef object _function  # the first callback: as a rule the only one, that of the task
    cdef object _context
    cdef list _others
    cdef bint _cancelled
    cdef object _message

    def __cinit__(self):
        self._asyncio_future_blocking = self.pending = True

    def __init__(self, loop):
        self._loop = loop

    def __repr__(self):
        state = "pending" if self.pending else "cancelled" if self._cancelled else "completed"
        return f"<TaskWait {state}>"

    def complete(self, value):
        """Run the task. For a callback of the loop, outside of any task, while the wait is pending."""
        self.pending = False
        self.value = value
        function, context, others = self._function, self._context, self._others
        self._function = self._context = self._others = None  # else the task and its wait keep each other
        if function is not None:
            run(function, context, self)
        if others is not None:
            for function, context in others:
                run(function, context, self)

    def get_loop(self):
        """The loop of the task."""
        return self._loop

    def add_done_callback(self, function, *, context=None):
        """Call *function* with this object when it is completed or cancelled."""
        if not self.pending:
            self._loop.call_soon(function, self, context=context)
        elif self._function is None:
            self._function, self._context = function, context
        elif self._others is None:
            self._others = [(function, context)]
        else:
            self._others.append((function, context))

    def cancel(self, msg=None):
        """End the wait. Returns False if it was over."""
        if not self.pending:
            return False
        self.pending = False
        self._cancelled = True
        self._message = msg
        function, context, others = self._function, self._context, self._others
        self._function = self._context = self._others = None
        if function is not None:
            self._loop.call_soon(function, self, context=context)
        if others is not None:
            for function, context in others:
                self._loop.call_soon(function, self, context=context)
        return True

    def result(self):
        """What it was completed with; raises CancelledError if it was cancelled."""
        if self._cancelled:
            raise CancelledError(*(() if self._message is None else (self._message,)))
        return self.value


cdef int run(function, context, wait) except -1:
    if context is None:
        function(wait)
        return 0
    PyContext_Enter(context)
    try:
        function(wait)
    finally:
        PyContext_Exit(context)
    return 0


@cython.final
cdef class AwaitedRecord(NativeTaskWait):
    """The iterator of `await delivery`: it yields itself, as the wait of the task, and returns the metadata."""

    cdef object _delivery
    cdef object _rest  # the core's iterator, if it does the rest
    cdef bint _begun

    def __iter__(self):
        return self

    def __next__(self):
        if self._rest is not None:
            return next(self._rest)
        if self.value is None:
            batch = self._slot(DELIVERY_BATCH)
            outcome = batch.outcome
            if outcome is None and not self._begun and self._wait(batch):
                self._begun = True
                return self
            if type(outcome) is not ACKNOWLEDGED:
                self._rest = Delivery.__await__(self._delivery)
                return next(self._rest)
            self.value = batch.metadata(self._slot(DELIVERY_INDEX), outcome)
        end_with(self.value)
        raise StopIteration  # which sets no exception here, and adds no traceback to that one

    cdef object _slot(self, Py_ssize_t offset):
        cdef PyObject* found = NULL if self._delivery is None else read_slot(<PyObject*>self._delivery, offset)
        if found is NULL:
            raise TypeError("a wait or a delivery that was made without its constructor cannot be awaited")
        return <object>found

    cdef bint _wait(self, batch) except -1:
        """Wait for a batch without an outcome, as `record_wait` of the core does; False if it has one by now."""
        self._loop = get_running_loop()
        inbox = of_thread.inbox
        if inbox is None or inbox.loop() is not self._loop:
            inbox = inbox_of(self._loop)
        waiter = (<dict>inbox.waiters).get(batch)
        if waiter is None or waiter.is_set:
            return inbox.add_to(batch, self._delivery, self)
        (<list>waiter.records).append((self._delivery, self))
        return True


@cython.binding(True)  # a method, as functions in Python are
def await_record(delivery):
    if not isinstance(delivery, DELIVERY):
        raise TypeError(f"a {type(delivery).__name__} is no delivery")
    cdef AwaitedRecord made = AwaitedRecord.__new__(AwaitedRecord)
    made._delivery = delivery
    return made


class AwaitedDelivery(Delivery):
    """A delivery of an `AsyncProducer`, with an `__await__` in C."""

    __slots__ = ()
    __await__ = await_record
