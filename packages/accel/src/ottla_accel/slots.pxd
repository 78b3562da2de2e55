# Attributes of Python classes with __slots__, read directly from memory in a tenth of the time of a look-up.

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF, Py_XDECREF

cdef extern from *:
    """
    #include <structmember.h>
    static Py_ssize_t ottla_slot_offset(PyObject* descriptor) {
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return -1;
        PyMemberDef* member = ((PyMemberDescrObject*)descriptor)->d_member;
        return member->type == T_OBJECT_EX ? member->offset : -1;
    }
    static Py_ssize_t ottla_member_offset(PyObject* descriptor) {
        if (Py_TYPE(descriptor) != &PyMemberDescr_Type) return -1;
        PyMemberDef* member = ((PyMemberDescrObject*)descriptor)->d_member;
        return member->type == T_OBJECT || member->type == T_OBJECT_EX ? member->offset : -1;
    }
    static PyObject* ottla_new(PyObject* cls) {
        return ((PyTypeObject*)cls)->tp_alloc((PyTypeObject*)cls, 0);
    }
    static inline PyObject* ottla_new_owner(PyObject* cls, Py_ssize_t offset, PyObject* thing) {
        PyObject* made = ottla_new(cls);
        if (made == NULL) Py_DECREF(thing);
        else *(PyObject**)((char*)made + offset) = thing;
        return made;
    }
    /* Since Python 3.14 a tuple keeps its hash, and -1 says that it is not computed; the allocator writes 0. */
    static void ottla_forget_hash(PyObject* made) {
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject*)made)->ob_hash = -1;
    #else
        (void)made;
    #endif
    }
    static PyObject* ottla_new_tuple(PyObject* cls, Py_ssize_t size) {
        PyObject* made = ((PyTypeObject*)cls)->tp_alloc((PyTypeObject*)cls, size);
        if (made != NULL) ottla_forget_hash(made);
        return made;
    }
    static void ottla_fill(PyObject* made, Py_ssize_t index, PyObject* item) {
        PyObject* before = PyTuple_GET_ITEM(made, index);
        Py_INCREF(item);
        PyTuple_SET_ITEM(made, index, item);
        Py_XDECREF(before);
    }
    """
    # Return a tuple of a subclass, whose items `fill` sets.
    object new_tuple "ottla_new_tuple"(object cls, Py_ssize_t size)
    void fill "ottla_fill"(object made, Py_ssize_t index, object item)
    # Prepare a tuple to be filled again, to which the caller alone has references.
    void forget_hash "ottla_forget_hash"(PyObject* made) noexcept
    Py_ssize_t ottla_slot_offset(object descriptor)
    # Return the offset of an attribute that a class in C stores as an object; -1: it is computed.
    Py_ssize_t member_offset "ottla_member_offset"(object descriptor)
    # Return an instance whose __init__ was not called.
    object new_object "ottla_new"(PyObject* cls)
    # The same, with one slot set to *thing*; takes over that reference, also if it raises.
    object new_owner "ottla_new_owner"(PyObject* cls, Py_ssize_t offset, PyObject* thing)


cdef inline Py_ssize_t slot_of(object cls, str name) except -1:
    # Return the attribute's offset in instances of exactly this class. Raises TypeError when it is no slot.
    cdef Py_ssize_t offset = ottla_slot_offset(cls.__dict__.get(name))
    if offset < 0:
        raise TypeError(f"{cls.__name__}.{name} is not a slot")
    return offset


cdef inline PyObject* read_slot(PyObject* owner, Py_ssize_t offset) noexcept:
    # Return a borrowed reference; NULL when the attribute was never set. For an attribute that is not set again, or an
    # object that no other thread has: `locks.new_reference` is for others.
    return (<PyObject**>(<char*>owner + offset))[0]


cdef inline void write_slot(PyObject* owner, Py_ssize_t offset, object thing) noexcept:
    # Only for an attribute that was never set.
    Py_INCREF(thing)
    (<PyObject**>(<char*>owner + offset))[0] = <PyObject*>thing


cdef inline void replace_slot(PyObject* owner, Py_ssize_t offset, object thing) noexcept:
    # For an attribute that was set, and may have been deleted.
    cdef PyObject* before = read_slot(owner, offset)
    Py_INCREF(thing)
    (<PyObject**>(<char*>owner + offset))[0] = <PyObject*>thing
    Py_XDECREF(before)
