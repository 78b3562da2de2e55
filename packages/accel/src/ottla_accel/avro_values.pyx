"""Python's data in Avro's binary encoding: plain data that fits its schema, in one pass.

Data of other types, and data that does not fit, is left to the caller, who has the whole of Avro and the errors for it.
Plain means exactly these types: a subclass may have a method of its own for anything.
"""

from cpython.dict cimport PyDict_CheckExact
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact, PyList_GET_SIZE
from cpython.long cimport PyLong_AsDouble, PyLong_CheckExact
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.float cimport FLT_MAX
from libc.math cimport fabs, isfinite
from libc.stdint cimport INT32_MAX, INT32_MIN, int64_t, uint8_t
from libc.string cimport memcpy

from ottla_accel.avro_kinds cimport (
    ARRAY, BOOLEAN, BYTES, CONSTANT, DECIMAL, DOUBLE, ENUM, FIXED_DECIMAL, FLOAT, INT, LONG, MAP, RECORD, STRING, Kind,
)
from ottla_accel.locks cimport dict_item, list_item
from ottla_accel.varints cimport write_varint

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef int MOST_DEPTH = 200
cdef object MISSING = object()


cdef class Out:
    """Bytes that grow."""

    cdef uint8_t* start
    cdef Py_ssize_t size, room

    def __dealloc__(self):
        PyMem_Free(self.start)

    cdef uint8_t* reserve(self, Py_ssize_t count) except NULL:
        """Return where as many bytes can be written."""
        cdef Py_ssize_t room = max(self.room, 256)
        cdef uint8_t* larger
        if self.start is NULL or self.size + count > self.room:
            while room < self.size + count:
                room *= 2
            larger = <uint8_t*>PyMem_Realloc(self.start, room)
            if larger is NULL:
                raise MemoryError
            self.start, self.room = larger, room
        return self.start + self.size

    cdef int long(self, int64_t number) except -1:
        cdef uint8_t* to = self.reserve(10)
        self.size += write_varint(to, number) - to
        return 0

    cdef int raw(self, const void* data, Py_ssize_t count) except -1:
        memcpy(self.reserve(count), data, count)
        self.size += count
        return 0


cdef class Type:
    """A type of Avro, compiled."""

    cdef Kind kind
    cdef int value_branch, null_branch
    cdef Py_ssize_t size
    cdef object prepare  # makes the data that Avro has for a logical type
    cdef tuple names
    cdef tuple defaults
    cdef tuple children  # of Type
    cdef dict symbols
    cdef bint ignores_unknown

    cdef bint write(self, object data, Out out, int depth) except -1:
        """Append data, and return whether that was possible; if not, the caller does it."""
        if self.value_branch >= 0:
            if data is None and self.null_branch >= 0:
                out.long(self.null_branch)
                return True
            # A hint of fastavro which branch is meant. Records look for it themselves.
            if self.kind != RECORD and PyDict_CheckExact(data) and "-type" in <dict>data:
                return False
            out.long(self.value_branch)
        if self.prepare is not None:
            data = self.prepare(data)
        if self.kind == STRING:
            return PyUnicode_CheckExact(data) and write_text(data, out)
        if self.kind == LONG or self.kind == INT:
            return PyLong_CheckExact(data) and self.write_number(data, out)
        if self.kind == DOUBLE or self.kind == FLOAT:
            return self.write_float(data, out)
        if self.kind == RECORD:
            return PyDict_CheckExact(data) and depth < MOST_DEPTH and self.write_record(<dict>data, out, depth + 1)
        if self.kind == BOOLEAN:
            if data is not True and data is not False:
                return False
            out.reserve(1)[0] = data is True
            out.size += 1
            return True
        if self.kind == ARRAY:
            return PyList_CheckExact(data) and depth < MOST_DEPTH and self.write_array(<list>data, out, depth + 1)
        if self.kind == MAP:
            return PyDict_CheckExact(data) and depth < MOST_DEPTH and self.write_map(<dict>data, out, depth + 1)
        if self.kind == ENUM:
            place = self.symbols.get(data) if PyUnicode_CheckExact(data) else None
            if place is None:
                return False
            out.long(<int64_t>place)
            return True
        if self.kind == CONSTANT:
            return data is None
        if type(data) is not bytes:
            return False
        if self.kind == BYTES:
            out.long(len(<bytes>data))
        elif len(<bytes>data) != self.size:
            return False
        out.raw(<const uint8_t*><bytes>data, len(<bytes>data))
        return True

    cdef bint write_number(self, object data, Out out) except -1:
        cdef int overflow = 0
        cdef int64_t number = PyLong_AsLongLongAndOverflow(data, &overflow)
        if overflow or (self.kind == INT and not INT32_MIN <= number <= INT32_MAX):
            return False
        out.long(number)
        return True

    cdef bint write_float(self, object data, Out out) except -1:
        cdef double number
        cdef float single
        if PyFloat_CheckExact(data):
            number = PyFloat_AS_DOUBLE(data)
        elif PyLong_CheckExact(data):
            try:
                number = PyLong_AsDouble(data)
            except OverflowError:
                return False
        else:
            return False
        if self.kind == DOUBLE:
            out.raw(&number, 8)
            return True
        if isfinite(number) and fabs(number) > FLT_MAX:
            return False
        single = <float>number
        out.raw(&single, 4)
        return True

    cdef bint write_record(self, dict data, Out out, int depth) except -1:
        cdef Py_ssize_t number, found = 0
        cdef Type child
        cdef bytes default
        if "-type" in data:  # fastavro compares it with the name of the record
            return False
        for number in range(len(self.names)):
            field = dict_item(<PyObject*>data, <PyObject*>self.names[number], <PyObject*>MISSING)
            child = <Type>self.children[number]
            if field is not MISSING:
                found += 1
                if not child.write(field, out, depth):
                    return False
            else:
                default = <bytes>self.defaults[number]
                if default is None:
                    return False
                out.raw(<const uint8_t*>default, len(default))
        return self.ignores_unknown or found == len(data)

    cdef bint write_array(self, list data, Out out, int depth) except -1:
        cdef Py_ssize_t count = PyList_GET_SIZE(data), number
        cdef Type child = <Type>self.children[0]
        if count:
            out.long(count)
        for number in range(count):
            item = list_item(<PyObject*>data, number, <PyObject*>MISSING)
            if item is MISSING or PyList_GET_SIZE(data) != count:  # it was changed meanwhile
                return False
            if not child.write(item, out, depth):
                return False
        out.long(0)
        return True

    cdef bint write_map(self, dict data, Out out, int depth) except -1:
        cdef Type child = <Type>self.children[0]
        cdef list pairs = list(data.items())
        if pairs:
            out.long(len(pairs))
        for name, value in pairs:
            if not (PyUnicode_CheckExact(name) and write_text(name, out) and child.write(value, out, depth)):
                return False
        out.long(0)
        return True


cdef bint write_text(object text, Out out) except -1:
    cdef Py_ssize_t size
    cdef const char* found
    try:
        found = PyUnicode_AsUTF8AndSize(text, &size)
    except UnicodeEncodeError:
        return False
    out.long(size)
    out.raw(found, size)
    return True


cdef Type compiled(object avro_type, int depth):
    cdef Type made = Type.__new__(Type)
    if depth > MOST_DEPTH:
        raise ValueError(f"types are nested more than {MOST_DEPTH} levels deep")
    cdef int kind = avro_type.kind
    if not CONSTANT <= kind <= STRING or kind == DECIMAL or kind == FIXED_DECIMAL:
        raise ValueError(f"{kind} is no kind of Avro type")
    made.kind = <Kind>kind
    made.value_branch, made.null_branch, made.size = avro_type.value_branch, avro_type.null_branch, avro_type.size
    made.prepare = avro_type.prepare
    made.names = tuple(avro_type.names)
    made.defaults = tuple(avro_type.defaults)
    made.ignores_unknown = avro_type.ignores_unknown_fields
    cdef list children = []
    for child in avro_type.children:  # no comprehension: see test_memory.py
        children.append(compiled(child, depth + 1))
    made.children = tuple(children)
    made.symbols = {name: place for place, name in enumerate(made.names)} if kind == ENUM else None
    wanted = {RECORD: len(made.names), ARRAY: 1, MAP: 1}.get(kind, 0)
    if len(made.children) != wanted or (kind == RECORD and len(made.defaults) != wanted):
        raise ValueError(f"a type of kind {kind} with {len(made.children)} types below it")
    for default in made.defaults:
        if not (default is None or type(default) is bytes):
            raise ValueError("a default is bytes or None")
    return made


cdef class AvroValues:
    """Writes data of one type."""

    cdef Type type

    def __init__(self, avro_type):
        self.type = compiled(avro_type, 0)

    def __call__(self, bytes prefix, data):
        """Return the bytes of data after *prefix*, or None to leave it to the caller."""
        cdef Out out = Out.__new__(Out)
        out.raw(<const uint8_t*>prefix, len(prefix))
        if not self.type.write(data, out, 0):
            return None
        return out.start[: out.size]


def avro_values(avro_type):
    """Return a function of a prefix and data, which returns bytes or None."""
    return AvroValues(avro_type)
