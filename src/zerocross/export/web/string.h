/* The functions of the C library that exported networks use, for platforms without one. */
#ifndef ZEROCROSS_STRING_H
#define ZEROCROSS_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memset(void *to, int value, size_t count);

#endif
