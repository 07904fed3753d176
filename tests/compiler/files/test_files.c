/* SPDX-License-Identifier: Apache-2.0 */
/* test_files.c: files are written whole or not at all: by several threads at once, by runs that are killed, through links. */
#include "compiler/files/files.h"
#include "tests/support/support.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { SIZE = 200000 };

static char folder[512], path[600];

static void make_folder(const char *name) {
    snprintf(folder, sizeof folder, "%s/test_files_%s", TEST_BINARY_DIR, name);
    base_report report = {0};
    assert_int_equal(file_make_directory(folder, &report), BASE_OK);
    snprintf(path, sizeof path, "%s/file", folder);
    unlink(path);
}

/* How many files the folder holds beside `path`. */
static int others(void) {
    int count = 0;
    DIR *listing = opendir(folder);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));)
        count += entry->d_name[0] != '.' && strcmp(entry->d_name, "file") != 0;
    closedir(listing);
    return count;
}

static void expect_whole(void) {
    base_report report = {0};
    file_bytes file;
    assert_int_equal(file_read(path, &file, &report), BASE_OK);
    assert_int_equal(file.size, SIZE);
    for (size_t i = 1; i < file.size; i++) assert_int_equal(file.data[i], file.data[0]);
    file_release(&file);
}

static void write_letter(unsigned char letter) {
    static _Thread_local unsigned char bytes[SIZE];
    base_report report = {0};
    memset(bytes, letter, sizeof bytes);
    assert_int_equal(file_write(path, bytes, sizeof bytes, &report), BASE_OK);
}

static void *write_often(void *letter) {
    for (int i = 0; i < 30; i++) write_letter(*(const unsigned char *)letter);
    return NULL;
}

static void threads_write_one_path(void **state) {
    (void)state;
    make_folder("threads");
    write_letter('a');
    pthread_t threads[4];
    unsigned char letters[4] = {'a', 'b', 'c', 'd'};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_often, &letters[i]), 0);
    for (int i = 0; i < 100; i++) expect_whole();
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    expect_whole();
    assert_int_equal(others(), 0);
}

static void killed_runs_leave_whole_files(void **state) {
    (void)state;
    make_folder("killed");
    write_letter('a');
    for (int i = 0; i < 100; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (;;) write_letter('b');
        }
        usleep((useconds_t)(i * 53 % 1500));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        expect_whole();
        assert_true(others() <= 1);
    }
    write_letter('c');
    expect_whole();
    assert_int_equal(others(), 0);
}

static void links_are_replaced(void **state) {
    (void)state;
    make_folder("links");
    char target[700];
    snprintf(target, sizeof target, "%s/target", folder);
    unlink(target);
    assert_int_equal(symlink(target, path), 0);
    write_letter('a');
    struct stat about;
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISREG(about.st_mode));
    assert_int_not_equal(access(target, F_OK), 0);
    unlink(path);
    assert_int_equal(symlink("/dev/null", path),
                     0); /* a device that a link leads to, of one's own is written */
    write_letter('a');
    assert_int_equal(lstat(path, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    unlink(path);
}

/* Needs the rights to give a link to somebody else; without them the link is one's own, and is replaced. */
static void foreign_links_are_refused(void **state) {
    (void)state;
    make_folder("shared");
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    bool foreign = lchown(path, 12345, 12345) == 0;
    base_report report = {0};
    assert_int_equal(file_write(path, "x", 1, &report), foreign ? BASE_INVALID : BASE_OK);
    if (foreign) assert_non_null(strstr(report.text, "somebody else's link"));
    unlink(path);
}

static void a_temporary_of_another_kind_is_left_alone(void **state) {
    (void)state;
    make_folder("taken");
    char taken[700];
    snprintf(taken, sizeof taken, "%s.tmp-0", path);
    mkdir(taken, 0777);
    write_letter('a');
    expect_whole();
    assert_int_equal(rmdir(taken), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_write_one_path),
        cmocka_unit_test(killed_runs_leave_whole_files),
        cmocka_unit_test(links_are_replaced),
        cmocka_unit_test(foreign_links_are_refused),
        cmocka_unit_test(a_temporary_of_another_kind_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
