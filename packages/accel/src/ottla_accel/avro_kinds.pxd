# The kinds of Avro columns and types, in the order of `ottla.interfaces.AvroKind`.

ctypedef enum Kind:
    CONSTANT
    BOOLEAN
    INT
    LONG
    FLOAT
    DOUBLE
    BYTES
    FIXED
    DECIMAL
    FIXED_DECIMAL
    ARRAY
    MAP
    RECORD
    ENUM
    STRING
