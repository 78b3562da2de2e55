"""Rows of columns as JSON objects: from Arrow's buffers to one text for all rows, without a Python object for a cell.

A cell has the form that pyarrow writes when it casts to text. For columns of other kinds, or with a number that needs
more than fifteen digits, the caller supplies the text. Loops over rows run without the GIL, and the buffers may change
meanwhile (`buffers.pxd`), so each number and offset is read only once, when it is written, and is checked then.
"""

from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc
from libc.math cimport fabs, signbit
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from ottla_accel.buffers cimport (
    are_within,
    is_set,
    read_8,
    read_16,
    read_32,
    read_64,
    read_double,
    start_of_buffer,
    validity_of,
)
from ottla_accel.columns cimport Bytes
from ottla_accel.row_buffers cimport RowBuffers, Written

from ottla.plugins.serializers.json_strings import quoted_text

ctypedef enum Kind:
    AS_IT_IS  # JSON already
    QUOTED  # JSON without its quotes
    ESCAPED
    BOOLEAN
    INT8
    INT16
    INT32
    INT64
    DECIMAL
    DATE
    LOCAL_TIME
    UTC_TIME

cdef struct Field:
    Kind kind
    const uint8_t* valid
    const void* data
    Py_ssize_t size  # of the data that the offsets refer to
    const int32_t* offsets
    int8_t* scales
    Py_ssize_t start
    const uint8_t* label
    Py_ssize_t label_size

cdef dict KINDS = {
    "bool": BOOLEAN,
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "double": DECIMAL,
    "string": ESCAPED,
    "date32[day]": DATE,
    "timestamp[us]": LOCAL_TIME,
    "timestamp[us, tz=UTC]": UTC_TIME,
    "timestamp[us, tz=Etc/UTC]": UTC_TIME,
}

# The bits that one row takes in the buffer of its numbers, or 32 for an offset; in the order of `Kind`.
cdef Py_ssize_t BITS[12]
BITS[:] = [32, 32, 32, 1, 8, 16, 32, 64, 64, 32, 64, 64]

cdef int64_t DAY = 86_400_000_000  # microseconds
cdef int64_t FIRST_DAY = -354_285, LAST_DAY = 2_932_896  # of the years that have four digits
cdef Py_ssize_t MOST_PLAIN = 40  # maximum bytes of a cell that is not text
cdef int MOST_SCALE = 15
cdef double MOST_DIGITS = 1e15, LEAST = 1e-6, MOST = 1e10  # other numbers are written with an exponent
cdef double POWERS[16]
cdef uint8_t DIGITS[200]
cdef uint8_t SPECIAL[256]  # which characters must be escaped
cdef const uint8_t* HEX = b"0123456789ABCDEF"


cdef void fill_tables() noexcept:
    cdef int number
    for number in range(100):
        DIGITS[2 * number] = 48 + number // 10
        DIGITS[2 * number + 1] = 48 + number % 10
    for number in range(256):
        SPECIAL[number] = number < 0x20 or number == 0x22 or number == 0x5C
    POWERS[0] = 1.0
    for number in range(1, 16):
        POWERS[number] = POWERS[number - 1] * 10.0


fill_tables()


cdef class Rows:
    """The columns of rows that are written as JSON."""

    cdef Field* fields
    cdef Py_ssize_t count
    cdef list kept  # owners of the memory that the pointers refer to

    def __cinit__(self, Py_ssize_t most):
        self.kept = []
        self.fields = <Field*>PyMem_Calloc(max(most, 1), sizeof(Field))
        if self.fields is NULL:
            raise MemoryError

    def __dealloc__(self):
        cdef Py_ssize_t number
        for number in range(self.count):
            PyMem_Free(self.fields[number].scales)
        PyMem_Free(self.fields)

    cdef int add(self, str name, object column, object text) except -1:
        """Add a column with at least one cell that is not null; *text* converts a column of another kind to JSON."""
        cdef Field* field = &self.fields[self.count]
        kind = KINDS.get(str(column.type))
        self.count += 1
        if kind is None or not self.open(field, kind, column):
            rows = len(column)
            column, quote = text(column)
            if str(column.type) != "string" or len(column) != rows:
                raise TypeError(f"text() returned {len(column)} values of {column.type}, not {rows} strings")
            self.open(field, QUOTED if quote else AS_IT_IS, column)
        label = b"," + quoted_text(name).encode() + b":"
        field.label, field.label_size = label, len(label)
        self.kept += [column, label]
        return 0

    cdef bint open(self, Field* field, Kind kind, object column) except -1:
        """Read a column's buffers; return False if it has a cell that cannot be written here."""
        buffers = column.buffers()
        cdef Py_ssize_t rows = len(column), stop
        field.kind, field.start = kind, column.offset
        field.valid = NULL
        stop = field.start + rows
        if column.null_count:
            field.valid = validity_of(buffers[0], stop)
        if kind <= ESCAPED:
            field.offsets = <const int32_t*>start_of_buffer(buffers[1], 4 * (stop + 1))
            field.data = start_of_buffer(buffers[2], 0)
            field.size = 0 if buffers[2] is None else buffers[2].size
            return True
        field.data = start_of_buffer(buffers[1], (stop * BITS[<int>kind] + 7) >> 3)
        if kind == DECIMAL:
            return self.scale(field, rows)
        return kind < DATE or has_known_years(field, rows)

    cdef bint scale(self, Field* field, Py_ssize_t rows) except -1:
        """Convert numbers to integers, each with the number of its decimal places."""
        cdef int64_t* whole = <int64_t*>PyMem_Malloc(max(rows, 1) * sizeof(int64_t))
        cdef Bytes numbers = Bytes.__new__(Bytes)
        if whole is NULL:
            raise MemoryError
        numbers._bytes = <uint8_t*>whole
        field.scales = <int8_t*>PyMem_Malloc(max(rows, 1))
        if field.scales is NULL:
            raise MemoryError
        if not are_short(field, rows, whole, field.scales):
            return False
        self.kept.append(numbers)
        field.data = whole - field.start
        return True


def objects(names, columns, *, Py_ssize_t count, text):
    """Return the offsets, as int32, and the bytes of *count* JSON objects with these fields, without null ones.

    *text* converts a column of another kind to strings, and returns whether they need quotes.
    """
    rows = Rows(len(columns))
    for name, column in zip(names, columns, strict=True):
        if len(column) != count:
            raise ValueError(f"a column of {len(column)} rows where there are {count}")
        if column.null_count < count:
            rows.add(name, column, text)
    return write(rows, count)


cdef tuple write(Rows rows, Py_ssize_t count):
    cdef RowBuffers made = RowBuffers(count, 64 + count * (2 + 24 * rows.count), "JSON")
    cdef Written written = Written(row=0, size=0, wrong=False)
    while True:
        with nogil:
            written = write_rows(
                rows.fields, rows.count, written, count, made.content._bytes, made.room, <int32_t*>made.offsets._bytes
            )
        if written.row == count:
            return made.finished(written)
        made.make_room(written)


cdef Written write_rows(
    const Field* fields,
    Py_ssize_t columns,
    Written written,
    Py_ssize_t count,
    uint8_t* content,
    Py_ssize_t room,
    int32_t* offsets,
) noexcept nogil:
    """Write rows until the end, or until there is no room; a partly written row does not count.

    The length of a text is read only once, to check the room and to write the text.
    """
    cdef Py_ssize_t column, place
    cdef int64_t first, last
    cdef uint8_t* start
    cdef uint8_t* to
    cdef uint8_t* end = content + room
    cdef const Field* field
    while written.row < count:
        start = to = content + written.size
        for column in range(columns):
            field = &fields[column]
            place = field.start + written.row
            if field.valid is not NULL and not is_set(field.valid, place):
                continue
            if field.offsets is NULL:
                if end - to < field.label_size + MOST_PLAIN + 2:
                    return written
                memcpy(to, field.label, field.label_size)
                to = write_cell(to + field.label_size, field, place)
                continue
            first, last = read_32(field.offsets, place), read_32(field.offsets, place + 1)
            if not are_within(first, last, field.size):
                written.wrong = True
                return written
            if end - to < field.label_size + (6 * (last - first) if field.kind == ESCAPED else last - first) + 4:
                return written
            memcpy(to, field.label, field.label_size)
            to = write_words(to + field.label_size, field.kind, <const uint8_t*>field.data + first, last - first)
        if to == start:
            if end - to < 2:
                return written
            to += 1
        start[0] = 0x7B  # in place of the first comma
        to[0] = 0x7D
        written.size = to + 1 - content
        written.row += 1
        offsets[written.row] = <int32_t>written.size
    return written


cdef inline uint8_t* write_words(uint8_t* to, Kind kind, const uint8_t* words, Py_ssize_t size) noexcept nogil:
    if kind == ESCAPED:
        return write_text(to, words, size)
    if kind == AS_IT_IS:
        return write_bytes(to, words, size)
    to[0] = 0x22
    to = write_bytes(to + 1, words, size)
    to[0] = 0x22
    return to + 1


cdef inline uint8_t* write_cell(uint8_t* to, const Field* field, Py_ssize_t at) noexcept nogil:
    cdef Kind kind = field.kind
    if kind == INT64:
        return write_integer(to, read_64(field.data, at))
    if kind == DECIMAL:
        return write_decimal(to, (<const int64_t*>field.data)[at], field.scales[at - field.start])
    if kind == BOOLEAN:
        if is_set(<const uint8_t*>field.data, at):
            memcpy(to, b"true", 4)
            return to + 4
        memcpy(to, b"false", 5)
        return to + 5
    if kind == INT32:
        return write_integer(to, read_32(field.data, at))
    if kind == INT16:
        return write_integer(to, read_16(field.data, at))
    if kind == INT8:
        return write_integer(to, read_8(field.data, at))
    to[0] = 0x22
    if kind == DATE:
        to = write_date(to + 1, known_year(read_32(field.data, at), FIRST_DAY, LAST_DAY))
    else:
        to = write_time(to + 1, known_year(read_64(field.data, at), FIRST_DAY * DAY, (LAST_DAY + 1) * DAY - 1))
        if kind == UTC_TIME:
            to[0] = 0x5A
            to += 1
    to[0] = 0x22
    return to + 1


cdef inline int64_t known_year(int64_t moment, int64_t lowest, int64_t highest) noexcept nogil:
    """Limit a moment to years of four digits. All were when they were checked, but the buffer may change."""
    return min(max(moment, lowest), highest)


cdef inline uint8_t* write_bytes(uint8_t* to, const uint8_t* words, Py_ssize_t size) noexcept nogil:
    if size:
        memcpy(to, words, size)
    return to + size


cdef uint8_t* write_text(uint8_t* to, const uint8_t* text, Py_ssize_t size) noexcept nogil:
    cdef Py_ssize_t place
    cdef uint8_t code
    to[0] = 0x22
    to += 1
    for place in range(size):
        code = <uint8_t>read_8(text, place)
        if not SPECIAL[code]:
            to[0] = code
            to += 1
        else:
            to = write_escape(to, code)
    to[0] = 0x22
    return to + 1


cdef uint8_t* write_escape(uint8_t* to, uint8_t code) noexcept nogil:
    to[0] = 0x5C
    if code == 0x22 or code == 0x5C:
        to[1] = code
    elif code == 0x08:
        to[1] = 0x62
    elif code == 0x0C:
        to[1] = 0x66
    elif code == 0x0A:
        to[1] = 0x6E
    elif code == 0x0D:
        to[1] = 0x72
    elif code == 0x09:
        to[1] = 0x74
    else:
        memcpy(to + 1, b"u00", 3)
        to[4], to[5] = HEX[code >> 4], HEX[code & 15]
        return to + 6
    return to + 2


cdef inline uint8_t* write_integer(uint8_t* to, int64_t number) noexcept nogil:
    if number < 0:
        to[0] = 0x2D
        return write_natural(to + 1, -<uint64_t>number)
    return write_natural(to, <uint64_t>number)


cdef inline uint8_t* write_natural(uint8_t* to, uint64_t number) noexcept nogil:
    cdef uint8_t digits[20]
    cdef Py_ssize_t place = 20
    cdef uint64_t rest
    while number >= 100:
        rest = number // 100
        place -= 2
        memcpy(&digits[place], &DIGITS[2 * (number - 100 * rest)], 2)
        number = rest
    if number >= 10:
        place -= 2
        memcpy(&digits[place], &DIGITS[2 * number], 2)
    else:
        place -= 1
        digits[place] = 48 + <uint8_t>number
    memcpy(to, &digits[place], 20 - place)
    return to + (20 - place)


cdef inline uint8_t* write_decimal(uint8_t* to, int64_t number, int scale) noexcept nogil:
    cdef uint8_t digits[20]
    cdef uint64_t whole
    cdef Py_ssize_t size
    if not scale:
        return write_integer(to, number)
    if number < 0:
        to[0] = 0x2D
        to += 1
        number = -number
    size = write_natural(digits, <uint64_t>number) - digits
    if size <= scale:
        memcpy(to, b"0.000000000000000", 2 + scale - size)
        to += 2 + scale - size
        memcpy(to, digits, size)
        return to + size
    memcpy(to, digits, size - scale)
    to += size - scale
    to[0] = 0x2E
    memcpy(to + 1, &digits[size - scale], scale)
    return to + 1 + scale


cdef inline uint8_t* write_two(uint8_t* to, int number) noexcept nogil:
    memcpy(to, &DIGITS[2 * number], 2)
    return to + 2


cdef uint8_t* write_date(uint8_t* to, int64_t day) noexcept nogil:
    """Write a day since 1970 in the Gregorian calendar, with years that begin in March, and eras of 400 years."""
    cdef int64_t days = day + 719_468
    cdef int64_t era = days // 146_097
    cdef int64_t of_era = days - era * 146_097
    cdef int64_t year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    cdef int64_t of_year = of_era - (365 * year + year // 4 - year // 100)
    cdef int64_t month = (5 * of_year + 2) // 153
    cdef int number = <int>(of_year - (153 * month + 2) // 5 + 1)
    year += era * 400
    month = month + 3 if month < 10 else month - 9
    if month <= 2:
        year += 1
    to = write_two(to, <int>(year // 100))
    to = write_two(to, <int>(year % 100))
    to[0] = 0x2D
    to = write_two(to + 1, <int>month)
    to[0] = 0x2D
    return write_two(to + 1, number)


cdef uint8_t* write_time(uint8_t* to, int64_t moment) noexcept nogil:
    """Write microseconds since 1970, rounded down to the millisecond."""
    cdef int64_t day = floor_of(moment, DAY)
    cdef int milliseconds = <int>((moment - day * DAY) // 1000)
    cdef int seconds = milliseconds // 1000
    milliseconds -= 1000 * seconds
    to = write_date(to, day)
    to[0] = 0x54
    to = write_two(to + 1, seconds // 3600)
    to[0] = 0x3A
    to = write_two(to + 1, seconds // 60 % 60)
    to[0] = 0x3A
    to = write_two(to + 1, seconds % 60)
    to[0] = 0x2E
    to[1] = 48 + milliseconds // 100
    return write_two(to + 2, milliseconds % 100)


cdef bint are_short(const Field* field, Py_ssize_t rows, int64_t* whole, int8_t* scales) noexcept nogil:
    """Convert each number to an integer and a scale; return False if one needs more digits, or an exponent.

    A whole number below 10**15 divided by a power of ten that is exact gives the double nearest to that decimal, and
    no other decimal of so few digits is as near: it is the shortest text that reads as the number.
    """
    cdef Py_ssize_t row
    cdef int scale, least = 0
    cdef double number, scaled
    cdef int64_t digits
    for row in range(rows):
        whole[row] = scales[row] = 0
        if field.valid is not NULL and not is_set(field.valid, field.start + row):
            continue
        number = read_double(field.data, field.start + row)
        if number == 0.0 and not signbit(number):
            continue
        if not LEAST <= fabs(number) < MOST:  # false also for one that is not finite
            return False
        scale = least if fabs(number) * POWERS[least] < MOST_DIGITS else 0
        while True:
            scaled = number * POWERS[scale]
            if fabs(scaled) >= MOST_DIGITS:
                return False
            digits = <int64_t>(scaled + (0.5 if scaled > 0 else -0.5))
            if <double>digits / POWERS[scale] == number:
                break
            scale += 1
            if scale > MOST_SCALE:
                return False
        least = max(scale, least)
        while scale and digits % 10 == 0:
            digits //= 10
            scale -= 1
        whole[row], scales[row] = digits, scale
    return True


cdef bint has_known_years(const Field* field, Py_ssize_t rows) noexcept nogil:
    """Whether all years have four digits."""
    cdef Py_ssize_t row, at
    cdef int64_t day
    for row in range(rows):
        at = field.start + row
        if field.valid is not NULL and not is_set(field.valid, at):
            continue
        if field.kind == DATE:
            day = read_32(field.data, at)
        else:
            day = floor_of(read_64(field.data, at), DAY)
        if not FIRST_DAY <= day <= LAST_DAY:
            return False
    return True


cdef inline int64_t floor_of(int64_t number, int64_t by) noexcept nogil:
    """Divide and round down; division in C truncates."""
    cdef int64_t found = number // by
    return found - 1 if found * by > number else found
