"""Columns as rows in Avro's binary encoding: from Arrow's buffers, without a Python object for a cell.

The caller has converted the columns to a few types and has checked each cell (`ottla.interfaces.AvroColumn`). Loops over
rows run without the GIL, and the buffers may change meanwhile (`buffers.pxd`), so each number and offset is read only
once, when it is used, and is checked then.
"""

from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from ottla_accel.avro_kinds cimport (
    ARRAY, BOOLEAN, BYTES, CONSTANT, DECIMAL, DOUBLE, FIXED, FIXED_DECIMAL, FLOAT, INT, LONG, MAP, RECORD, Kind,
)
from ottla_accel.buffers cimport are_within, is_set, read_8, read_32, read_64, start_of_buffer, validity_of
from ottla_accel.row_buffers cimport RowBuffers, Written
from ottla_accel.varints cimport write_varint

cdef struct Cells:
    Kind kind
    int32_t value_branch, null_branch
    const uint8_t* valid
    Py_ssize_t start  # the array's offset
    bint is_wide  # offsets have 64 bits
    const void* offsets
    const void* data
    Py_ssize_t size  # of the data that offsets refer to, of a constant, or of a fixed cell
    Py_ssize_t first_child, children

cdef Py_ssize_t MOST_SMALL = 24  # maximum bytes of the branch, the length and a number
cdef int MOST_DEPTH = 100


cdef class Nodes:
    """The columns as one array, each before its children's."""

    cdef Cells* cells
    cdef Py_ssize_t count, room
    cdef list kept  # owners of the memory that the pointers refer to

    def __cinit__(self):
        self.kept = []

    def __dealloc__(self):
        PyMem_Free(self.cells)

    cdef Py_ssize_t reserve(self, Py_ssize_t count) except -1:
        """Make room for more columns, and return the place of the first."""
        cdef Py_ssize_t first = self.count, room = max(self.room, 16)
        cdef Cells* larger
        while room < self.count + count:
            room *= 2
        if room > self.room:
            larger = <Cells*>PyMem_Realloc(self.cells, room * sizeof(Cells))
            if larger is NULL:
                raise MemoryError
            self.cells, self.room = larger, room
        self.count += count
        return first

    cdef int fill(self, Py_ssize_t at, object column, Py_ssize_t rows, int depth) except -1:
        """Read a column with at least this many rows, and its children. Raises ValueError for one that is not valid."""
        cdef Cells cells
        cdef Py_ssize_t child_rows, number
        cdef int kind = column.kind
        array = column.array
        if depth > MOST_DEPTH:
            raise ValueError(f"columns are nested more than {MOST_DEPTH} levels deep")
        if not CONSTANT <= kind <= RECORD:
            raise ValueError(f"{kind} is no kind of Avro column")
        cells.kind = <Kind>kind
        cells.value_branch, cells.null_branch = column.value_branch, column.null_branch
        cells.valid = NULL
        cells.start = cells.size = 0
        cells.is_wide = False
        cells.offsets = cells.data = NULL
        children = list(column.children)
        cells.children = len(children)
        if kind == CONSTANT:
            data = bytes(column.data)
            self.kept.append(data)
            cells.data, cells.size = <const uint8_t*>data, len(data)
        else:
            if len(array) < rows:
                raise ValueError(f"a column of {len(array)} rows where there are {rows}")
            self.kept.append(array)
            self.open(&cells, column, array)
        child_rows = rows
        if kind == ARRAY or kind == MAP:
            if cells.children != (1 if kind == ARRAY else 2):
                raise ValueError(f"a list or map with {cells.children} columns below it")
            child_rows = len(array.values)
            cells.size = child_rows
        elif kind != RECORD and cells.children:
            raise ValueError("a column of single values has none below it")
        cells.first_child = self.reserve(cells.children)
        self.cells[at] = cells
        for number in range(cells.children):
            self.fill(cells.first_child + number, children[number], child_rows, depth + 1)
        return 0

    cdef int open(self, Cells* cells, object column, object array) except -1:
        """Read the buffers of an array."""
        cdef Py_ssize_t stop
        cdef int kind = cells.kind
        cdef str name = str(array.type)
        buffers = array.buffers()
        cells.start = array.offset
        stop = cells.start + len(array)
        if array.null_count:
            cells.valid = validity_of(buffers[0], stop)
        if kind == RECORD:
            if not name.startswith("struct<"):
                raise ValueError(f"a record of type {name}")
        elif kind == ARRAY or kind == MAP:
            if not name.startswith(("list<", "large_list<")):
                raise ValueError(f"a list or map of type {name}")
            cells.is_wide = name.startswith("large_")
            cells.offsets = start_of_buffer(buffers[1], (8 if cells.is_wide else 4) * (stop + 1)) if stop else NULL
        elif kind == BYTES:
            if name not in ("string", "large_string", "binary", "large_binary"):
                raise ValueError(f"text or bytes of type {name}")
            cells.is_wide = name.startswith("large_")
            cells.offsets = start_of_buffer(buffers[1], (8 if cells.is_wide else 4) * (stop + 1)) if stop else NULL
            cells.data = start_of_buffer(buffers[2], 0)
            cells.size = 0 if buffers[2] is None else buffers[2].size
        elif kind == BOOLEAN:
            if name != "bool":
                raise ValueError(f"booleans of type {name}")
            cells.data = start_of_buffer(buffers[1], (stop + 7) >> 3)
        else:
            self.open_numbers(cells, column, array, name, buffers[1], stop)
        return 0

    cdef int open_numbers(
        self, Cells* cells, object column, object array, str name, object buffer, Py_ssize_t stop
    ) except -1:
        """Read the buffer of cells that have all the same width."""
        cdef int kind = cells.kind
        cdef Py_ssize_t width  # of a cell in the array
        if kind == DECIMAL or kind == FIXED_DECIMAL:
            if not name.startswith("decimal128("):
                raise ValueError(f"decimals of type {name}")
            width, cells.size = 16, column.size
            if kind == FIXED_DECIMAL and cells.size < 1:
                raise ValueError(f"decimals of {cells.size} bytes")
        elif kind == FIXED:
            if not name.startswith("fixed_size_binary["):
                raise ValueError(f"a fixed value of type {name}")
            width = cells.size = array.type.byte_width
        else:
            if name != {INT: "int32", LONG: "int64", FLOAT: "float", DOUBLE: "double"}[kind]:
                raise ValueError(f"numbers of type {name}")
            width = 4 if kind == INT or kind == FLOAT else 8
        cells.data = start_of_buffer(buffer, width * stop)
        return 0


def avro_rows(column, *, Py_ssize_t count, bytes prefix):
    """Return the offsets, as int32, and the bytes of *count* rows, each after *prefix*."""
    cdef Nodes nodes = Nodes()
    nodes.fill(nodes.reserve(1), column, count, 0)
    return write(nodes, count, prefix)


cdef tuple write(Nodes nodes, Py_ssize_t count, bytes prefix):
    cdef Py_ssize_t prefix_size = len(prefix)
    cdef RowBuffers made = RowBuffers(count, 64 + count * (prefix_size + 8 * nodes.count), "Avro")
    cdef Written written = Written(row=0, size=0, wrong=False)
    cdef const uint8_t* first = prefix
    while True:
        with nogil:
            written = write_rows(
                nodes.cells,
                first,
                prefix_size,
                written,
                count,
                made.content._bytes,
                made.room,
                <int32_t*>made.offsets._bytes,
            )
        if written.row == count:
            return made.finished(written)
        made.make_room(written)


cdef Written write_rows(
    const Cells* nodes,
    const uint8_t* prefix,
    Py_ssize_t prefix_size,
    Written written,
    Py_ssize_t count,
    uint8_t* content,
    Py_ssize_t room,
    int32_t* offsets,
) noexcept nogil:
    """Write rows until the end, or until there is no room; a partly written row does not count."""
    cdef uint8_t* to
    cdef uint8_t* end = content + room
    while written.row < count:
        to = content + written.size
        if end - to < prefix_size:
            return written
        if nodes.valid is NULL or is_set(nodes.valid, nodes.start + written.row):
            to = write_cell(nodes, nodes, written.row, write_bytes(to, prefix, prefix_size), end, &written.wrong)
        if to is NULL:
            return written
        written.size = to - content
        written.row += 1
        offsets[written.row] = <int32_t>min(written.size, INT32_MAX)
    return written


cdef uint8_t* write_cell(
    const Cells* nodes, const Cells* cells, Py_ssize_t row, uint8_t* to, uint8_t* end, bint* wrong
) noexcept nogil:
    """Write a cell and what is below it. Returns its end; NULL: there is no room, or something is *wrong*."""
    cdef Py_ssize_t place = cells.start + row, number
    cdef int64_t first, last
    cdef uint64_t bits
    if end - to < MOST_SMALL:
        return NULL
    if cells.value_branch >= 0:
        if cells.null_branch >= 0 and cells.valid is not NULL and not is_set(cells.valid, place):
            return write_varint(to, cells.null_branch)
        to = write_varint(to, cells.value_branch)
    if cells.kind == LONG:
        return write_varint(to, read_64(cells.data, place))
    if cells.kind == INT:
        return write_varint(to, read_32(cells.data, place))
    if cells.kind == DOUBLE:
        memcpy(to, <const uint8_t*>cells.data + 8 * place, 8)
        return to + 8
    if cells.kind == BYTES:
        if not read_range(cells, place, &first, &last):
            wrong[0] = True
            return NULL
        to = write_varint(to, last - first)
        if end - to < last - first:
            return NULL
        return write_bytes(to, <const uint8_t*>cells.data + first, last - first)
    if cells.kind == RECORD:
        for number in range(cells.children):
            to = write_cell(nodes, &nodes[cells.first_child + number], row, to, end, wrong)
            if to is NULL:
                return NULL
        return to
    if cells.kind == BOOLEAN:
        to[0] = is_set(<const uint8_t*>cells.data, place)
        return to + 1
    if cells.kind == FLOAT:
        memcpy(to, <const uint8_t*>cells.data + 4 * place, 4)
        return to + 4
    if cells.kind == ARRAY or cells.kind == MAP:
        if not read_range(cells, place, &first, &last):
            wrong[0] = True
            return NULL
        return write_block(nodes, cells, first, last, to, end, wrong)
    if cells.kind == FIXED:
        if end - to < cells.size:
            return NULL
        return write_bytes(to, <const uint8_t*>cells.data + cells.size * place, cells.size)
    if cells.kind == CONSTANT:
        if end - to < cells.size:
            return NULL
        return write_bytes(to, <const uint8_t*>cells.data, cells.size)
    if cells.kind == FIXED_DECIMAL:
        if end - to < cells.size:
            return NULL
        return write_decimal(to, read_64(cells.data, 2 * place), read_64(cells.data, 2 * place + 1), cells.size)
    first, last = read_64(cells.data, 2 * place), read_64(cells.data, 2 * place + 1)
    number = decimal_size(first, last)
    return write_decimal(write_varint(to, number), first, last, number)


cdef inline bint read_range(const Cells* cells, Py_ssize_t place, int64_t* first, int64_t* last) noexcept nogil:
    """Read the offsets of a cell, and return whether they lie inside the data."""
    if cells.is_wide:
        first[0], last[0] = read_64(cells.offsets, place), read_64(cells.offsets, place + 1)
    else:
        first[0], last[0] = read_32(cells.offsets, place), read_32(cells.offsets, place + 1)
    return are_within(first[0], last[0], cells.size)


cdef uint8_t* write_block(
    const Cells* nodes, const Cells* cells, int64_t first, int64_t last, uint8_t* to, uint8_t* end, bint* wrong
) noexcept nogil:
    """Write the items of a list, or the pairs of a map, as one block."""
    cdef Py_ssize_t number, item
    if last > first:
        to = write_varint(to, last - first)
    for item in range(first, last):
        for number in range(cells.children):
            to = write_cell(nodes, &nodes[cells.first_child + number], item, to, end, wrong)
            if to is NULL:
                return NULL
    if end - to < 1:
        return NULL
    to[0] = 0
    return to + 1


cdef inline uint8_t* write_bytes(uint8_t* to, const uint8_t* data, Py_ssize_t size) noexcept nogil:
    if size:
        memcpy(to, data, size)
    return to + size


cdef inline Py_ssize_t decimal_size(int64_t low, int64_t high) noexcept nogil:
    """Return the bytes that a number of 128 bits needs in two's complement, with its sign."""
    cdef bint is_long = high == low >> 63
    cdef int64_t part = low if is_long else high
    # One bit of the first byte is the sign.
    cdef uint64_t rest = <uint64_t>(part ^ (part >> 63)) >> 7
    cdef Py_ssize_t size = 1 if is_long else 9
    while rest:
        rest >>= 8
        size += 1
    return size


cdef inline uint8_t* write_decimal(uint8_t* to, int64_t low, int64_t high, Py_ssize_t size) noexcept nogil:
    """Write a number of 128 bits, most significant byte first."""
    cdef Py_ssize_t at
    cdef uint8_t sign = 0xFF if high < 0 else 0
    for at in range(size - 1, -1, -1):
        if size - 1 - at >= 16:
            to[at] = sign
        elif size - 1 - at >= 8:
            to[at] = <uint8_t>(high >> (8 * (size - 9 - at)))
        else:
            to[at] = <uint8_t>(low >> (8 * (size - 1 - at)))
    return to + size
