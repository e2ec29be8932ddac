/* A test program's own folder, in which its tests run, and its files. File names are relative to that folder, or
 * absolute. Failures are cmocka's. */
#ifndef TESTS_FILES_H
#define TESTS_FILES_H

#include <stddef.h>
#include <stdio.h>

/* files_open makes a folder in /tmp, enters it, and sets PROTEUS_BIN and PROTEUS_SOURCE. files_close leaves and removes
 * the folder. Set-up and tear-down functions of a group or a test. Return 0 or -1. */
int files_open(void **state);
int files_close(void **state);
/* Like files_close, but returns -1 when the folder has more than one file: a test left something behind. */
int files_close_one(void **state);
/* Returns the absolute path of a file in the folder; "": of the folder. Valid until files_close. */
const char *in_folder(const char *name);

/* Opens a file like fopen; fails the test on an error. */
FILE *open_file(const char *name, const char *mode);
/* Returns a file's content as a string from malloc; "" when there is no such file. */
char *read_text(const char *name);
/* Reads a file, which must exist and have less than `capacity` bytes. Returns their number. */
size_t read_bytes(const char *name, void *bytes, size_t capacity);
/* Write a file, make the folders above it, and return its name. */
const char *write_text(const char *name, const char *text);
const char *write_bytes(const char *name, const void *bytes, size_t size);
/* Returns how many entries a folder has. */
unsigned files_in(const char *path);

/* Asserts that the file's content is the text. */
void assert_file(const char *name, const char *expected);
/* Assert that the file contains `expected`, or does not contain `unexpected`. */
void assert_text(const char *name, const char *expected);
void assert_no_text(const char *name, const char *unexpected);

#endif
