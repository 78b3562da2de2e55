"""CRC-32C (Castagnoli), the checksum of record batches, without the LGPL package that the core uses otherwise.

If the processor has an instruction for it (SSE 4.2, ARMv8 CRC), three parts of a block are computed at once, because
the instruction takes three cycles; tables combine the three results. Otherwise eight tables process eight bytes in one
step.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    #define OTTLA_POLYNOMIAL 0x82f63b78u  /* bits in reverse order, as CRC-32C has them */
    #define OTTLA_LONG 4096               /* bytes of each of three parts of a block */
    #define OTTLA_SHORT 256

    static uint32_t ottla_crc_bytes[8][256];
    static uint32_t ottla_crc_long[4][256];
    static uint32_t ottla_crc_short[4][256];
    static int ottla_crc_hardware = 0;

    static uint32_t ottla_crc_by_tables(uint32_t crc, const uint8_t* at, size_t size) {
        while (size >= 8) {
            uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
            crc = ottla_crc_bytes[7][low & 255] ^ ottla_crc_bytes[6][low >> 8 & 255] ^
                  ottla_crc_bytes[5][low >> 16 & 255] ^ ottla_crc_bytes[4][low >> 24] ^
                  ottla_crc_bytes[3][at[4]] ^ ottla_crc_bytes[2][at[5]] ^
                  ottla_crc_bytes[1][at[6]] ^ ottla_crc_bytes[0][at[7]];
            at += 8;
            size -= 8;
        }
        while (size--) crc = ottla_crc_bytes[0][(crc ^ *at++) & 255] ^ crc >> 8;
        return crc;
    }

    /* The CRC after this number of further zero bytes. It is linear, so the results for single bits determine it. */
    static void ottla_crc_make_shift(uint32_t table[4][256], int zeros) {
        uint32_t images[32];
        int bit, byte, number, step;
        for (bit = 0; bit < 32; bit++) {
            uint32_t crc = (uint32_t)1 << bit;
            for (step = 0; step < zeros; step++) crc = ottla_crc_bytes[0][crc & 255] ^ crc >> 8;
            images[bit] = crc;
        }
        for (byte = 0; byte < 4; byte++)
            for (number = 0; number < 256; number++) {
                uint32_t found = 0;
                for (bit = 0; bit < 8; bit++)
                    if (number >> bit & 1) found ^= images[8 * byte + bit];
                table[byte][number] = found;
            }
    }

    static inline uint32_t ottla_crc_shift(uint32_t table[4][256], uint32_t crc) {
        return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255] ^ table[3][crc >> 24];
    }

    #if (defined(__x86_64__) || defined(_M_X64)) && (defined(__GNUC__) || defined(__clang__))
        #include <nmmintrin.h>
        #define OTTLA_CRC_TARGET __attribute__((target("sse4.2")))
        #define OTTLA_CRC_8(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
        #define OTTLA_CRC_1(crc, byte) _mm_crc32_u8(crc, byte)
        static int ottla_crc_has_instruction(void) { return __builtin_cpu_supports("sse4.2"); }
    #elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
        #if defined(__linux__)
            #include <sys/auxv.h>
            #ifndef HWCAP_CRC32
                #define HWCAP_CRC32 (1 << 7)
            #endif
            static int ottla_crc_has_instruction(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
        #elif defined(__APPLE__)
            static int ottla_crc_has_instruction(void) { return 1; }
        #else
            static int ottla_crc_has_instruction(void) { return 0; }
        #endif
        #if defined(__clang__)
            #define OTTLA_CRC_TARGET __attribute__((target("crc")))
        #else
            #define OTTLA_CRC_TARGET __attribute__((target("+crc")))
        #endif
        #define OTTLA_CRC_8(crc, word) __builtin_arm_crc32cd(crc, word)
        #define OTTLA_CRC_1(crc, byte) __builtin_arm_crc32cb(crc, byte)
        #if !defined(__clang__)
            #undef OTTLA_CRC_8
            #undef OTTLA_CRC_1
            #define OTTLA_CRC_8(crc, word) __builtin_aarch64_crc32cx(crc, word)
            #define OTTLA_CRC_1(crc, byte) __builtin_aarch64_crc32cb(crc, byte)
        #endif
    #endif

    #ifdef OTTLA_CRC_TARGET
        static inline uint64_t ottla_crc_word(const uint8_t* at) {
            uint64_t word;
            memcpy(&word, at, 8);
            return word;
        }

        OTTLA_CRC_TARGET
        static uint32_t ottla_crc_blocks(
            uint32_t crc, const uint8_t** from, size_t* size, size_t part, uint32_t table[4][256]
        ) {
            const uint8_t* at = *from;
            while (*size >= 3 * part) {
                uint32_t second = 0, third = 0;
                const uint8_t* end = at + part;
                for (; at < end; at += 8) {
                    crc = OTTLA_CRC_8(crc, ottla_crc_word(at));
                    second = OTTLA_CRC_8(second, ottla_crc_word(at + part));
                    third = OTTLA_CRC_8(third, ottla_crc_word(at + 2 * part));
                }
                crc = ottla_crc_shift(table, crc) ^ second;
                crc = ottla_crc_shift(table, crc) ^ third;
                at += 2 * part;
                *size -= 3 * part;
            }
            *from = at;
            return crc;
        }

        OTTLA_CRC_TARGET
        static uint32_t ottla_crc_by_instruction(uint32_t crc, const uint8_t* at, size_t size) {
            crc = ottla_crc_blocks(crc, &at, &size, OTTLA_LONG, ottla_crc_long);
            crc = ottla_crc_blocks(crc, &at, &size, OTTLA_SHORT, ottla_crc_short);
            for (; size >= 8; at += 8, size -= 8) crc = OTTLA_CRC_8(crc, ottla_crc_word(at));
            for (; size; at++, size--) crc = OTTLA_CRC_1(crc, *at);
            return crc;
        }
    #else
        static int ottla_crc_has_instruction(void) { return 0; }
        #define ottla_crc_by_instruction ottla_crc_by_tables
    #endif

    static void ottla_crc_prepare(void) {
        int number, step;
        for (number = 0; number < 256; number++) {
            uint32_t crc = (uint32_t)number;
            for (step = 0; step < 8; step++) crc = crc & 1 ? crc >> 1 ^ OTTLA_POLYNOMIAL : crc >> 1;
            ottla_crc_bytes[0][number] = crc;
        }
        for (number = 0; number < 256; number++)
            for (step = 1; step < 8; step++) {
                uint32_t crc = ottla_crc_bytes[step - 1][number];
                ottla_crc_bytes[step][number] = ottla_crc_bytes[0][crc & 255] ^ crc >> 8;
            }
        ottla_crc_make_shift(ottla_crc_long, OTTLA_LONG);
        ottla_crc_make_shift(ottla_crc_short, OTTLA_SHORT);
        ottla_crc_hardware = ottla_crc_has_instruction();
    }
    """
    void prepare "ottla_crc_prepare"()
    uint32_t by_tables "ottla_crc_by_tables"(uint32_t crc, const uint8_t* at, size_t size) nogil
    uint32_t by_instruction "ottla_crc_by_instruction"(uint32_t crc, const uint8_t* at, size_t size) nogil
    bint has_instruction "ottla_crc_hardware"

prepare()

hardware_based = bool(has_instruction)
"""Whether this processor has an instruction for the checksum; `crc32c` then uses it."""

cdef Py_ssize_t LONG = 1 << 20  # from this size on the GIL is released: so many bytes take 50 µs with the instruction


def crc32c(data, unsigned int crc=0):
    """Return the checksum of *data*; with *crc*, that of the bytes with this checksum followed by *data*."""
    return checksum(data, crc, has_instruction)


def crc32c_by_tables(data, unsigned int crc=0):
    """Return the checksum by tables, as on processors without an instruction."""
    return checksum(data, crc, False)


cdef checksum(data, uint32_t crc, bint instruction):
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        crc = ~crc
        if instruction and view.len < LONG:
            crc = by_instruction(crc, <const uint8_t*>view.buf, view.len)
        else:
            with nogil:
                if instruction:
                    crc = by_instruction(crc, <const uint8_t*>view.buf, view.len)
                else:
                    crc = by_tables(crc, <const uint8_t*>view.buf, view.len)
        return ~crc
    finally:
        PyBuffer_Release(&view)
