# What differs where CPython is built without the GIL: nothing else in this package knows of the two builds.
#
# With the GIL, code in C that runs no Python code is one step for all other threads. So a lock is nothing there, an atomic
# access is an ordinary one, and a reference is taken from where it is.
#
# Without it, a `Mutex` makes such a step. Nothing that may run Python code comes between `lock` and `unlock`: a finalizer
# that sends would wait for its own thread. Creating objects is allowed, since the garbage collector runs between two
# bytecodes. A thread that waits for a mutex does not keep the collector waiting; one that holds a mutex does, and also
# keeps `os.fork` waiting. So a mutex is held in a child only if it was just handed to a thread that had waited for it:
# `blocks.release_in_child`. A lock of `threading` is taken before a mutex, never after it.
#
# A slot, a list or a dict that another thread may change must not lend its object, which that thread could free: the
# functions here return references of the caller's own.

from cpython.object cimport PyObject

cdef extern from *:
    """
    #include <structmember.h>
    #ifdef Py_GIL_DISABLED
    typedef PyMutex ottla_mutex;
    #define ottla_lock(mutex) PyMutex_Lock(mutex)
    #define ottla_unlock(mutex) PyMutex_Unlock(mutex)
    static inline void ottla_lock_both(ottla_mutex* one, ottla_mutex* other) {
        /* In one order for all threads, so that no two of them wait for each other. */
        PyMutex_Lock(one < other ? one : other);
        PyMutex_Lock(one < other ? other : one);
    }
    #define ottla_load(from) _Py_atomic_load_ssize_acquire(from)
    #define ottla_store(to, value) _Py_atomic_store_ssize_release(to, value)

    static inline PyObject* ottla_slot(PyObject* owner, Py_ssize_t offset) {
        /* As the descriptor of a slot does, without a lock as a rule. */
        PyMemberDef member = {"slot", Py_T_OBJECT_EX, offset, 0, NULL};
        PyObject* found = PyMember_GetOne((const char*)owner, &member);
        if (found == NULL) PyErr_Clear();
        return found != Py_None ? found : NULL;
    }
    static inline PyObject* ottla_list_item(PyObject* list, Py_ssize_t index, PyObject* missing) {
        PyObject* found = PyList_GetItemRef(list, index);
        if (found != NULL) return found;
        PyErr_Clear();
        return Py_NewRef(missing);
    }
    static inline PyObject* ottla_dict_item(PyObject* dict, PyObject* key, PyObject* missing) {
        PyObject* found;
        int failed = PyDict_GetItemRef(dict, key, &found) < 0;
        return found != NULL || failed ? found : Py_NewRef(missing);
    }
    static inline PyObject* ottla_unchanging(PyObject* list) {
        return PyList_AsTuple(list);
    }
    static inline int ottla_has_references(PyObject* made, Py_ssize_t number) {
        /* References of this thread, and none of another one. */
        return _Py_IsOwnedByCurrentThread(made) && made->ob_ref_local == (uint32_t)number &&
               _Py_atomic_load_ssize_acquire(&made->ob_ref_shared) == 0;
    }
    #else
    typedef char ottla_mutex;
    #define ottla_lock(mutex) ((void)(mutex))
    #define ottla_unlock(mutex) ((void)(mutex))
    #define ottla_lock_both(one, other) ((void)(one), (void)(other))
    #define ottla_load(from) (*(from))
    #define ottla_store(to, value) ((void)(*(to) = (value)))

    static inline PyObject* ottla_slot(PyObject* owner, Py_ssize_t offset) {
        PyObject* found = *(PyObject**)((char*)owner + offset);
        return found != Py_None ? Py_XNewRef(found) : NULL;
    }
    static inline PyObject* ottla_list_item(PyObject* list, Py_ssize_t index, PyObject* missing) {
        return Py_NewRef(index < PyList_GET_SIZE(list) ? PyList_GET_ITEM(list, index) : missing);
    }
    static inline PyObject* ottla_dict_item(PyObject* dict, PyObject* key, PyObject* missing) {
        PyObject* found = PyDict_GetItemWithError(dict, key);
        return found == NULL && PyErr_Occurred() ? NULL : Py_NewRef(found != NULL ? found : missing);
    }
    static inline PyObject* ottla_unchanging(PyObject* list) {
        return Py_NewRef(list);
    }
    static inline int ottla_has_references(PyObject* made, Py_ssize_t number) {
        return Py_REFCNT(made) == number;
    }
    #endif
    """
    ctypedef struct Mutex "ottla_mutex":  # zeros: no thread holds it
        pass
    void lock "ottla_lock"(Mutex* mutex) noexcept nogil
    void unlock "ottla_unlock"(Mutex* mutex) noexcept nogil
    void lock_both "ottla_lock_both"(Mutex* one, Mutex* other) noexcept nogil
    # For a number that is written under a mutex and read without it. What was written before it can be read after it.
    Py_ssize_t load "ottla_load"(Py_ssize_t* number) noexcept nogil
    void store "ottla_store"(Py_ssize_t* number, Py_ssize_t value) noexcept nogil

    # Return a reference to what a slot has, which the caller releases; NULL: it has nothing, or None.
    PyObject* new_reference "ottla_slot"(PyObject* owner, Py_ssize_t offset) noexcept
    # Return what a list or a dict with str keys has there, or *missing* if it has nothing.
    object list_item "ottla_list_item"(PyObject* items, Py_ssize_t index, PyObject* missing)
    object dict_item "ottla_dict_item"(PyObject* items, PyObject* key, PyObject* missing)
    # Return the items of a list as they are now, in a list or a tuple that no thread changes while the caller reads it.
    object unchanging "ottla_unchanging"(PyObject* items)
    # Return whether there are exactly *number* references. If all are the caller's, the object may be filled again.
    bint has_references "ottla_has_references"(PyObject* made, Py_ssize_t number) noexcept
