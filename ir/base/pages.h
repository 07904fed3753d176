/* SPDX-License-Identifier: Apache-2.0 */
/* pages.h: what the system is asked to do with pages of memory. Large ones are for memory that is read from front to back again and again, such as weights: a
 * processor that looks up fewer pages reads faster (a third and more, where it was measured).
 */
#ifndef OURO_PAGES_H
#define OURO_PAGES_H

#include <stddef.h>

enum { BASE_LARGE_PAGE = 2 << 20 }; /* bytes; what x86-64 and aarch64 mostly have */

/* The alignment that a block of so many bytes should have: that of large pages where it has some, otherwise `alignment`. */
size_t base_pages_alignment(size_t bytes, size_t alignment);

/* Asks the system for large pages wherever the block has whole ones. Before the block is first written. Nothing but the speed
 * depends on it; systems that know no such request ignore it. */
void base_pages_request(void *block, size_t bytes);

/* Of a file that is mapped and not written to: its whole pages in these bytes leave the memory of the process until they are read again, which finds them in
 * the system's cache. Systems that know no such request ignore it. */
void base_pages_leave(const void *mapped, size_t bytes);

#endif
